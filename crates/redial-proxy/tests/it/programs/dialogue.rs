//! The same dialogue between every client and every server.

use super::run::{Server, output};
use crate::kit::Running;

const PYTHON_SERVER: &str = r#"
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self):
        body = self.body()
        if self.path == "/204":
            self.send_response(204)
            self.end_headers()
            return
        if self.path == "/304":
            self.send_response(304)
            self.send_header("etag", '"a"')
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("x-method", self.command)
        if self.path == "/chunked":
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in (b"one ", b"two"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("content-length", str(len(body) or 5))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body or b"hello")

    do_GET = do_HEAD = do_POST = do_PUT = answer

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

const NODE_SERVER: &str = r#"
const http = require("http");
http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    if (request.url === "/204") return response.writeHead(204).end();
    if (request.url === "/304") return response.writeHead(304, { etag: '"a"' }).end();
    response.setHeader("x-method", request.method);
    if (request.url === "/chunked") {
      response.write("one ");
      return response.end("two");
    }
    response.setHeader("content-length", body.length || 5);
    response.end(request.method === "HEAD" ? undefined : body.length ? body : "hello");
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
"#;

const HTTP_CLIENT: &str = r#"
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)

def ask(method, path, body=None, **options):
    connection.request(method, path, body, **options)
    response = connection.getresponse()
    return response, response.read()

for _ in range(3):
    response, body = ask("GET", "/")
    assert (response.status, body) == (200, b"hello"), (response.status, body)
large = bytes(range(256)) * 4096
for method in ("POST", "PUT"):
    response, body = ask(method, "/", large)
    assert response.status == 200 and body == large, (response.status, len(body))
    assert response.headers["x-method"] == method
parts = (large[at:at + 10000] for at in range(0, len(large), 10000))
response, body = ask("POST", "/", parts, encode_chunked=True, headers={"transfer-encoding": "chunked"})
assert response.status == 200 and body == large, (response.status, len(body))
response, body = ask("GET", "/chunked")
assert body == b"one two", body
response, body = ask("HEAD", "/")
assert (body, response.headers["content-length"]) == (b"", "5"), response.headers
response, body = ask("GET", "/204")
assert (response.status, body) == (204, b"")
response, body = ask("GET", "/304")
assert (response.status, body, response.headers["etag"]) == (304, b"", '"a"')
response, body = ask("GET", "/")
assert (response.status, body) == (200, b"hello"), (response.status, body)
"#;

const URLLIB_CLIENT: &str = r#"
import sys, urllib.error, urllib.request
base = f"http://127.0.0.1:{sys.argv[1]}"
opened = lambda *args, **options: urllib.request.urlopen(urllib.request.Request(*args, **options), timeout=20)
assert opened(base + "/").read() == b"hello"
assert opened(base + "/", data=b"x" * 100000).read() == b"x" * 100000
assert opened(base + "/chunked").read() == b"one two"
head = opened(base + "/", method="HEAD")
assert (head.read(), head.headers["content-length"]) == (b"", "5")
assert opened(base + "/204").status == 204
try:
    opened(base + "/304")
    raise AssertionError("304 is an error for urllib")
except urllib.error.HTTPError as error:
    assert error.code == 304
"#;

const NODE_CLIENT: &str = r#"
const http = require("http"), assert = require("assert");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (method, path, body, headers) => new Promise((resolve, reject) => {
  const options = { port: Number(process.argv[1]), method, path, agent, headers, timeout: 20000 };
  const request = http.request(options, (response) => {
    const parts = [];
    response.on("data", (part) => parts.push(part));
    response.on("end", () => resolve({ response, body: Buffer.concat(parts) }));
    response.on("error", reject);
  });
  request.on("error", reject);
  // In two writes and without a length it is chunked.
  if (body) request.write(body.subarray(0, 1000));
  request.end(body ? body.subarray(1000) : undefined);
});
(async () => {
  const large = Buffer.alloc(1 << 20, "0123456789");
  assert.equal((await ask("GET", "/")).body, "hello");
  const sized = await ask("POST", "/", large, { "content-length": large.length });
  assert.ok(sized.body.equals(large));
  const chunked = await ask("PUT", "/", large);
  assert.ok(chunked.body.equals(large));
  assert.equal(chunked.response.headers["x-method"], "PUT");
  assert.equal((await ask("GET", "/chunked")).body, "one two");
  const head = await ask("HEAD", "/");
  assert.equal(head.body.length, 0);
  assert.equal(head.response.headers["content-length"], "5");
  assert.equal((await ask("GET", "/204")).response.statusCode, 204);
  const unchanged = await ask("GET", "/304");
  assert.equal(unchanged.response.statusCode, 304);
  assert.equal(unchanged.response.headers.etag, '"a"');
  assert.equal((await ask("GET", "/")).body, "hello");
  agent.destroy();
})().catch((error) => { console.error(error); process.exit(1); });
"#;

/// Runs the dialogue of each client with the server at this port.
pub(super) fn dialogues(port: u16) {
    let port = port.to_string();
    output("python3", &["-c", HTTP_CLIENT, &port]);
    output("python3", &["-c", URLLIB_CLIENT, &port]);
    output("node", &["-e", NODE_CLIENT, "--", &port]);
}

pub(super) fn python_server() -> Server {
    Server::python(PYTHON_SERVER)
}

#[test]
fn python_and_node_talk_to_python() {
    let server = python_server();
    let proxy = Running::to(&server.url(), "");
    dialogues(proxy.port);
}

#[test]
fn python_and_node_talk_to_node() {
    let server = Server::node(NODE_SERVER);
    let proxy = Running::to(&server.url(), "");
    dialogues(proxy.port);
}
