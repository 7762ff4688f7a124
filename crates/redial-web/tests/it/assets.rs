//! The built page on the wire.

use redial_web::App;

use crate::page::Page;

fn get(page: &Page, path: &str, header: &str) -> crate::page::Response {
    let (host, bearer) = (page.host(), page.bearer());
    page.raw(&format!("GET {path}"), &[&host, &bearer, header], b"")
}

#[test]
fn every_page_is_the_same_document() {
    let page = Page::new(App::default());
    for path in ["/", "/playground", "/exercise", "/queue", "/policies"] {
        let response = get(&page, path, "Accept: text/html");
        assert_eq!(response.status, 200, "{path}");
        assert!(response.head.contains("content-type: text/html"), "{}", response.head);
        assert!(response.body.contains("<div id=\"app\">"), "{}", response.body);
    }
    let missing = get(&page, "/nowhere", "Accept: text/html");
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("the pages are /, /playground"), "{}", missing.body);
}

#[test]
fn a_known_file_is_not_sent_again() {
    let page = Page::new(App::default());
    let first = get(&page, "/app.css", "Accept: */*");
    let tag = first.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    assert!(first.head.contains("cache-control: no-cache"), "{}", first.head);
    let again = get(&page, "/app.css", &format!("If-None-Match: \"other\", {tag}"));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(get(&page, "/app.css", "If-None-Match: \"other\"").status, 200);
}

#[test]
fn compressed_only_if_the_visitor_can_read_it() {
    let page = Page::new(App::default());
    let head = |accept: &str| {
        let (host, bearer) = (page.host(), page.bearer());
        let accept = format!("Accept-Encoding: {accept}");
        page.raw("HEAD /app.js", &[&host, &bearer, &accept], b"").head
    };
    for accept in ["gzip", "br, GZIP;q=0.5"] {
        assert!(head(accept).contains("content-encoding: gzip"), "{accept}");
    }
    for accept in ["br", "gzip;q=0", "identity", ""] {
        assert!(!head(accept).contains("content-encoding"), "{accept}");
    }
    assert!(head("gzip").contains("vary: accept-encoding"));
}

#[test]
fn the_licences_of_what_is_built_in_are_served() {
    let page = Page::new(App::default());
    let text = get(&page, "/licences.txt", "Accept: */*").body;
    for package in ["svelte", "uplot"] {
        assert!(text.contains(&format!("== {package} ")), "{package}");
    }
    assert!(text.contains("Permission is hereby granted"), "the text of the licence");
}

#[test]
fn the_first_load_is_small() {
    const MAX_BYTES: usize = 120_000;
    let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dist");
    let load = xtask::web::first_load(&dist).unwrap();
    assert!(load <= MAX_BYTES, "{load} bytes");
}
