use super::dialogue::{dialogues, python_server};
use super::run::Server;
use crate::kit::Running;

#[test]
fn haproxy_in_front_changes_nothing() {
    let server = python_server();
    let proxy = Running::to(&server.url(), "trust = false");
    let text = format!(
        "defaults
           mode http
           timeout connect 20s
           timeout client 20s
           timeout server 20s
         frontend main
           bind 127.0.0.1:PORT
           default_backend proxy
         backend proxy
           option forwardfor
           http-reuse always
           server one 127.0.0.1:{}
",
        proxy.port
    );
    let haproxy = Server::start("haproxy", &["-db", "-q", "-f", "FILE"], &text);
    dialogues(haproxy.port);
}
