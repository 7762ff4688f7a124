//! What other web sites, users and machines must not be able to do.

use std::sync::Arc;

use redial_web::{App, BindError, Demo, Listen, Token, Web, check_host};
use tokio::runtime::Builder;

use crate::page::{Page, Response};

#[test]
fn only_listed_hosts_are_answered() {
    let page = Page::new(App::default());
    let status = |host: &str| {
        page.raw("GET /api/hello", &[&format!("Host: {host}"), &page.bearer()], b"").status
    };
    let port = page.port();
    assert_eq!(status(&format!("127.0.0.1:{port}")), 200);
    assert_eq!(status(&format!("LocalHost:{port}")), 200);
    // A name that resolves to this machine, its own names with another port, and another loopback address.
    for host in [
        format!("attacker.example:{port}"),
        format!("localhost.attacker.example:{port}"),
        format!("127.0.0.2:{port}"),
        "127.0.0.1".to_owned(),
        format!("localhost:{}", port ^ 1),
        String::new(),
    ] {
        assert_eq!(status(&host), 421, "{host}");
    }
    let both = [page.host(), format!("Host: attacker.example:{port}"), page.bearer()];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    assert!(matches!(page.raw("GET /api/hello", &both, b"").status, 400 | 421));
}

/// The probe of a container uses the address of its pod, and has no token.
#[test]
fn probes_are_answered_for_any_host() {
    let page = Page::new(App::default());
    let status = |line: &str| page.raw(line, &["Host: 10.1.2.3:8080"], b"").status;
    for path in ["/healthz", "/readyz"] {
        // Without a sidecar there is no such page, but the request is let in.
        assert_eq!(status(&format!("GET {path}")), 404);
        assert_eq!(status(&format!("POST {path}")), 421);
    }
    assert_eq!(status("GET /metrics"), 421);
    assert_eq!(status("GET /healthz/../api/hello"), 421);
}

#[test]
fn requests_of_other_origins_are_refused() {
    let page = Page::new(App::default());
    let port = page.port();
    assert_eq!(page.status_with(&format!("Origin: http://127.0.0.1:{port}")), 200);
    assert_eq!(page.status_with(&format!("Origin: http://localhost:{port}")), 200);
    for origin in [
        "https://attacker.example".to_owned(),
        "null".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("http://127.0.0.1:{}", port ^ 1),
        format!("http://127.0.0.1:{port}.attacker.example"),
        format!("ftp://127.0.0.1:{port}"),
    ] {
        assert_eq!(page.status_with(&format!("Origin: {origin}")), 403, "{origin}");
    }
}

#[test]
fn requests_that_a_browser_marks_as_another_sites_are_refused() {
    let page = Page::new(App::default());
    for (site, status) in
        [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
    {
        assert_eq!(page.status_with(&format!("Sec-Fetch-Site: {site}")), status, "{site}");
    }
}

fn demo() -> App {
    App { demo: Some(Arc::new(Demo::start().unwrap())), ..App::default() }
}

const JSON: &str = "Content-Type: application/json";
const BLIP: &[u8] = br#"{"kind":"blip"}"#;

#[test]
fn changes_are_posts_of_the_page_itself_or_of_a_program_with_the_token() {
    let page = Page::new(demo());
    let (host, cookie, bearer) = (page.host(), page.cookie(), page.bearer());
    let post = |headers: &[&str]| page.raw("POST /api/demo/fault", headers, BLIP).status;
    let origin = format!("Origin: http://127.0.0.1:{}", page.port());
    assert_eq!(post(&[&host, &bearer, JSON]), 200);
    assert_eq!(post(&[&host, &cookie, JSON, &origin]), 200);
    assert_eq!(post(&[&host, &cookie, JSON, "Sec-Fetch-Site: same-origin"]), 200);
    // A browser sends the cookie with what another site's form sends, but then says so.
    assert_eq!(post(&[&host, &cookie, JSON]), 403);
    assert_eq!(post(&[&host, &cookie, JSON, "Origin: http://127.0.0.1:1"]), 403);
    assert_eq!(post(&[&host, JSON, &origin]), 401);
    // A form cannot send JSON.
    assert_eq!(post(&[&host, &cookie, &origin, "Content-Type: text/plain"]), 415);
    assert_eq!(page.get("/api/demo/fault").status, 405);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let response =
            page.raw(&format!("{method} /api/demo/fault"), &[&host, &bearer, JSON, &origin], BLIP);
        assert_eq!(response.status, 405, "{method}");
        assert!(!response.head.contains("access-control"), "{}", response.head);
    }
}

#[test]
fn the_token_in_the_address_becomes_a_cookie_of_this_port() {
    let page = Page::new(App::default());
    let (host, token, port) = (page.host(), &page.token, page.port());
    let enter = |path: &str| page.raw(&format!("GET {path}"), &[&host], b"");
    let entered = enter(&format!("/queue?a=1&token={token}&b=2"));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/queue?a=1&b=2")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with(&format!("redial_{port}={token}; httponly; samesite=strict")),
        "{cookie}"
    );
    // Two slashes would be another host.
    let entered = enter(&format!("//attacker.example/?token={token}"));
    assert_eq!(entered.header("location"), Some("/attacker.example/"));
    let with = |header: String| page.raw("GET /api/hello", &[&host, &header], b"").status;
    assert_eq!(with(page.cookie()), 200);
    assert_eq!(with(page.bearer()), 200);
    assert_eq!(with(format!("Cookie: redial_{}={token}", port ^ 1)), 401);
    assert_eq!(with(format!("Cookie: redial_{port}={token}0")), 401);
    assert_eq!(with(format!("Authorization: Bearer {}", "0".repeat(token.len()))), 401);
    assert_eq!(with(format!("Authorization: Bearer {}", &token[1..])), 401);
    assert_eq!(with("Authorization: Bearer ".to_owned()), 401);
    assert_eq!(enter("/api/hello?token=").status, 401);
    // A token in the address is no licence to change something.
    let change = page.raw(&format!("POST /api/demo/fault?token={token}"), &[&host, JSON], BLIP);
    assert_eq!(change.status, 401);
}

#[test]
fn a_visitor_without_the_token_is_told_how_to_get_in() {
    let page = Page::new(App::default());
    let (host, accept) = (page.host(), "Accept: text/html,*/*");
    let answer = page.raw("GET /", &[&host, accept], b"");
    assert_eq!(answer.status, 401);
    assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{}", answer.head);
    assert!(
        answer.body.contains("redial up") && answer.body.contains("?token="),
        "{}",
        answer.body
    );
    assert!(!answer.body.contains(&page.token));
    let answer = page.raw("GET /api/hello", &[&host, accept], b"");
    assert_eq!(answer.header("www-authenticate"), Some("bearer"));
    assert!(answer.body.contains(r#"{"error":"#), "{}", answer.body);
}

#[test]
fn every_response_has_the_protective_headers() {
    let page = Page::new(App::default());
    let (host, bearer) = (page.host(), page.bearer());
    let all: [Response; 7] = [
        page.get("/"),
        page.get("/api/hello"),
        page.get("/api/nothing"),
        page.get("/nothing"),
        page.raw("GET /", &[&host], b""),
        page.raw("GET /", &["Host: attacker.example", &bearer], b""),
        page.raw("DELETE /", &[&host, &bearer], b""),
    ];
    assert_eq!(all.each_ref().map(|it| it.status), [200, 200, 404, 404, 401, 421, 405]);
    for response in all {
        let policy = response.header("content-security-policy").unwrap();
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'"
        );
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("x-frame-options"), Some("deny"));
        assert!(!response.head.contains("access-control"), "{}", response.head);
    }
}

#[test]
fn other_machines_need_an_allowed_host() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let listen = Listen::new("0.0.0.0:0".parse().unwrap(), Token::new().unwrap());
    let refused = runtime.block_on(Web::bind(listen)).err().unwrap();
    assert!(matches!(refused, BindError::NoHosts(_)), "{refused}");
    assert!(refused.to_string().contains("--allow-host"), "{refused}");
    let page = Page::at("0.0.0.0:0", &["box.internal", "dash.example:443"], App::default());
    let status = |host: &str, origin: &str| {
        let (host, origin) = (format!("Host: {host}"), format!("Origin: {origin}"));
        page.raw("GET /api/hello", &[&host, &page.bearer(), &origin], b"").status
    };
    let (host, port) = (format!("box.internal:{}", page.port()), page.port());
    assert_eq!(status(&host, &format!("http://{host}")), 200);
    assert_eq!(status("box.internal", "http://box.internal"), 421);
    // Behind a server that ends TLS.
    assert_eq!(status("dash.example", "https://dash.example"), 200);
    assert_eq!(status("dash.example", "http://dash.example"), 403);
    // The address itself is no name that was allowed.
    assert_eq!(status(&format!("127.0.0.1:{port}"), &format!("http://127.0.0.1:{port}")), 421);
    for wrong in ["", "http://box", "box/path", "a b", "[::1", "box:99999"] {
        assert!(check_host(wrong).is_err(), "{wrong:?}");
    }
    for right in ["box", "box:80", "a.b-c.example", "[::1]:8080", "10.0.0.7"] {
        assert!(check_host(right).is_ok(), "{right:?}");
    }
}

#[test]
fn large_bodies_are_refused() {
    let page = Page::new(demo());
    let body = vec![b' '; 3 << 20];
    let headers = [page.host(), page.bearer(), JSON.to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert_eq!(page.raw("POST /api/demo/fault", &headers, &body).status, 413);
}

#[test]
fn faults_are_checked() {
    let page = Page::new(demo());
    let headers = [page.host(), page.bearer(), JSON.to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let post = |body: &str| page.raw("POST /api/demo/fault", &headers, body.as_bytes());
    assert!(post(r#"{"kind":"slow","seconds":2}"#).body.contains(r#""kind":"slow""#));
    assert!(post(r#"{"kind":"none"}"#).body.contains(r#""fault":null"#));
    let wrong = post(r#"{"kind":"earthquake"}"#);
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.body.contains("blip, brownout, outage, 429s, lost replies, slow and none"),
        "{}",
        wrong.body
    );
    assert_eq!(post(r#"{"kind":"slow","seconds":0}"#).status, 400);
    assert_eq!(post(r#"{"kind":"slow","seconds":1e9}"#).status, 400);
    assert_eq!(post(r#"{"kind":"slow","second":1}"#).status, 422);
    assert_eq!(post("{").status, 400);
}
