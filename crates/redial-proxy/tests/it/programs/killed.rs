//! An upstream that is killed in the middle of a response.

use super::run::Server;
use crate::kit::{Message, Running, Wire};

/// `/length` and `/chunked` send the beginning of a body and wait.
const SERVER: &str = r#"
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("server-port", sys.argv[1])
        if self.path == "/chunked":
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", "5" if self.path == "/" else "1000000")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n" if self.path == "/chunked" else b"hello")
        while self.path != "/":
            time.sleep(60)

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

fn server_of(response: &Message) -> u16 {
    response.get("server-port").unwrap().parse().unwrap()
}

#[test]
fn a_killed_upstream_leaves_a_broken_response_and_the_other_answers() {
    for path in ["/length", "/chunked"] {
        let mut servers = [Server::python(SERVER), Server::python(SERVER)];
        let targets = format!("[{}, {}]", servers[0].url(), servers[1].url());
        let proxy = Running::to(&targets, "");
        let mut caller = Wire::connect(proxy.port);
        caller.send(format!("GET {path} HTTP/1.1\r\nhost: app\r\n\r\n"));
        let head = caller.head().unwrap();
        assert_eq!(head.status(), 200);
        let begun: &[u8] = if path == "/chunked" { b"5\r\nhello\r\n" } else { b"hello" };
        assert_eq!(caller.exactly(begun.len()), begun);

        let killed = server_of(&head);
        let server = servers.iter_mut().find(|server| server.port == killed).unwrap();
        server.child.kill().unwrap();
        server.child.wait().unwrap();

        // Neither the rest of the length nor a last chunk.
        assert_eq!(caller.rest(), b"");
        for _ in 0..5 {
            let response = proxy.ask("GET / HTTP/1.1\r\nhost: app\r\n\r\n");
            assert_eq!((response.status(), response.text()), (200, "hello".to_owned()));
            assert_ne!(server_of(&response), killed);
        }
    }
}
