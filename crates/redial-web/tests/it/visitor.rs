//! A server without sidecar and queue, and a visitor with its token.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use redial_web::{App, Listen, Token, Web};
use serde_json::Value;

/// A running server.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    token: String,
}

/// A response.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|wrong| panic!("{wrong}: {}", self.body))
    }

    /// The message of an error.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

impl Site {
    /// Serves until the test program ends.
    pub(crate) fn open() -> Self {
        let token = Token::new().unwrap();
        let secret = token.reveal().to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listen = Listen::new(([127, 0, 0, 1], 0).into(), token);
                let web = Web::bind(listen).await.unwrap();
                sender.send(web.address()).unwrap();
                web.serve(App::default()).await;
            });
        });
        Self { address: receiver.recv().unwrap(), token: secret }
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, &body.to_string())
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Response {
        let mut stream = self.send(method, path, body);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, headers: head.to_lowercase(), body: body.to_owned() }
    }

    /// A connection on which a request was sent.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "{method} /api{path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        stream
    }
}
