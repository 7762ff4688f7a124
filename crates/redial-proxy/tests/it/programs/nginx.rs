use super::run::{Server, output};
use crate::kit::{Running, Wire};

#[test]
fn nginx_serves_files_ranges_and_conditions() {
    let nginx = Server::nginx("location /204 { return 204; } keepalive_requests 3;");
    let large: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 241) as u8).collect();
    std::fs::write(nginx.directory.file("large.bin"), &large).unwrap();
    let proxy = Running::to(&nginx.url(), "");
    let mut caller = Wire::connect(proxy.port);
    // More requests than nginx takes on a connection.
    for _ in 0..10 {
        caller.send("GET /large.bin HTTP/1.1\r\nhost: files\r\n\r\n");
        let response = caller.response();
        assert_eq!(response.status(), 200);
        assert!(response.body == large, "the file came back changed");
        let etag = response.get("etag").unwrap();
        caller.send(format!(
            "GET /large.bin HTTP/1.1\r\nhost: files\r\nif-none-match: {etag}\r\n\r\n"
        ));
        assert_eq!(caller.response().status(), 304);
        caller.send("GET /large.bin HTTP/1.1\r\nhost: files\r\nrange: bytes=10-19\r\n\r\n");
        let part = caller.response();
        assert_eq!((part.status(), &part.body[..]), (206, &large[10..20]));
        caller.send("HEAD /large.bin HTTP/1.1\r\nhost: files\r\n\r\n");
        let head = caller.head().unwrap();
        assert_eq!(head.get("content-length"), Some("3000000"));
        caller.send("GET /204 HTTP/1.1\r\nhost: files\r\n\r\n");
        assert_eq!(caller.response().status(), 204);
        caller.send("GET /absent HTTP/1.1\r\nhost: files\r\n\r\n");
        assert_eq!(caller.response().status(), 404);
    }
}

#[test]
fn wrk_gets_every_response_from_nginx() {
    let nginx = Server::nginx("location / { return 200 hello; }");
    let proxy = Running::to(&nginx.url(), "");
    let url = format!("http://127.0.0.1:{}/", proxy.port);
    let text = output("wrk", &["-t", "1", "-c", "32", "-d", "2", "--timeout", "30", &url]);
    assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "{text}");
    let done = text.lines().find_map(|line| line.trim().split_once(" requests in"));
    assert!(done.unwrap().0.parse::<u64>().unwrap() > 32, "{text}");
}
