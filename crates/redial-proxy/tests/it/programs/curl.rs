use super::dialogue::python_server;
use super::run::output;
use crate::kit::{Directory, Running, Upstream};

/// With a limit on its time that is no part of the test.
fn curl(arguments: &[&str]) -> String {
    output(
        "curl",
        &[&["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"], arguments].concat(),
    )
}

#[test]
fn curl_sends_head_and_gets_responses_without_bodies() {
    let server = python_server();
    let proxy = Running::to(&server.url(), "");
    let base = format!("http://127.0.0.1:{}", proxy.port);
    let (head, no_content, unchanged) = (base.clone() + "/", base.clone() + "/204", base + "/304");
    // One connection: a response that is read too far or not far enough breaks the next.
    let all =
        curl(&["--head", &head, "--next", "--include", "--silent", &no_content, &unchanged, &head]);
    let statuses: Vec<&str> = all.lines().filter(|line| line.starts_with("HTTP/")).collect();
    let reasons = [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 304 Not Modified",
        "HTTP/1.1 200 OK",
    ];
    assert_eq!(statuses, reasons, "{all}");
    assert!(all.ends_with("\r\n\r\nhello"), "{all}");
    assert_eq!(all.matches("content-length: 5").count(), 2, "{all}");
}

#[test]
fn curl_waits_for_100_and_uploads_a_large_body() {
    let server = python_server();
    let proxy = Running::to(&server.url(), "");
    let directory = Directory::new("curl-upload");
    let (path, back) = (directory.file("large"), directory.file("back"));
    let large: Vec<u8> = (0..5_000_000_u32).map(|it| (it % 251) as u8).collect();
    std::fs::write(&path, &large).unwrap();
    let (url, path, back) = (
        format!("http://127.0.0.1:{}/", proxy.port),
        path.to_str().unwrap(),
        back.to_str().unwrap(),
    );
    let data = format!("@{path}");
    // Longer than the limit: without the 100 it would fail.
    let expect = ["--header", "expect: 100-continue", "--expect100-timeout", "1000"];
    let sized = ["--output", back, "--dump-header", "-", "--data-binary", &data, &url];
    let heads = curl(&[&expect[..], &sized].concat());
    assert!(heads.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{heads}");
    assert!(std::fs::read(back).unwrap() == large, "the body came back changed");
    let chunked =
        ["--header", "transfer-encoding: chunked", "--output", back, "--upload-file", path, &url];
    curl(&chunked);
    assert!(std::fs::read(back).unwrap() == large, "the chunked body came back changed");
}

#[test]
fn curl_gets_trailers() {
    let upstream = Upstream::always(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: checksum\r\n\r\n2\r\nok\r\n0\r\nchecksum: 17\r\n\r\n",
    );
    let proxy = Running::before(&upstream, "");
    let url = format!("http://127.0.0.1:{}/", proxy.port);
    let text = curl(&["--include", "--header", "te: trailers", "--header", "connection: te", &url]);
    assert!(text.ends_with("\r\n\r\nokchecksum: 17\r\n"), "{text:?}");
}
