use super::run::{Server, output};
use crate::kit::Running;

/// Echoes what it gets, and says goodbye when the other side has ended.
const SERVER: &str = r#"
const http = require("http"), crypto = require("crypto");
const server = http.createServer({ allowHalfOpen: true }, (_, response) => response.end("plain"));
server.on("upgrade", (request, socket) => {
  const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = crypto.createHash("sha1").update(key).digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
  socket.on("data", (data) => socket.write(data));
  socket.on("end", () => socket.end("bye"));
});
server.listen(Number(process.argv[2]), "127.0.0.1");
"#;

const CLIENT: &str = r#"
const http = require("http"), assert = require("assert");
const key = "dGhlIHNhbXBsZSBub25jZQ==";
const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13" };
const request = http.get({ port: Number(process.argv[1]), path: "/chat", headers, timeout: 20000 });
request.on("response", (response) => { console.error(response.statusCode); process.exit(1); });
request.on("upgrade", (response, socket) => {
  assert.equal(response.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  const sent = Buffer.alloc(1 << 20, "frames ");
  const parts = [];
  socket.on("data", (part) => {
    parts.push(part);
    if (Buffer.concat(parts).length === sent.length) socket.end();
  });
  socket.on("end", () => {
    assert.ok(Buffer.concat(parts).equals(Buffer.concat([sent, Buffer.from("bye")])));
    console.log("echoed");
    process.exit(0);
  });
  socket.write(sent);
});
"#;

#[test]
fn node_echoes_a_websocket_to_node() {
    let server = Server::node(SERVER);
    let proxy = Running::to(&server.url(), "");
    assert_eq!(output("node", &["-e", CLIENT, "--", &proxy.port.to_string()]), "echoed\n");
}
