//! Sockets and notifications as systemd passes them.

use super::{REDIAL, Server};
use crate::{Scratch, program, text};

/// Binds a listener and a socket for notifications, starts the sidecar with them, and prints what it is told.
const LAUNCHER: &str = "\
import os, signal, socket, sys, urllib.request
notify, name, command = sys.argv[1], sys.argv[2], sys.argv[3:]
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen()
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); told.bind(notify)
pid = os.fork()
if pid == 0:
    if listener.fileno() == 3: os.set_inheritable(3, True)
    else: os.dup2(listener.fileno(), 3)
    os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=name, NOTIFY_SOCKET=notify)
    os.execv(command[0], command)
if name != 'app':
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
say = lambda: print(told.recv(1000).decode().replace('\\n', ' '), flush=True)
say()
print(urllib.request.urlopen('http://127.0.0.1:%d/' % listener.getsockname()[1]).status)
os.kill(pid, signal.SIGHUP); say(); say()
os.kill(pid, signal.SIGTERM); say()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

fn launch(name: &str) -> std::process::Output {
    let server = Server::ok();
    let files = Scratch::new("proxy-systemd");
    let file = format!("[proxy]\nadmin = \"none\"\n[upstream.app]\nto = \"{}\"\n", server.url());
    let path = files.file("proxy.toml", file);
    let socket = files.path("notify");
    let args = ["-c", LAUNCHER, &socket, name, REDIAL, "proxy", &path];
    program("python3").args(args).output().unwrap()
}

#[test]
fn a_socket_of_systemd_is_served_and_states_are_reported() {
    let output = launch("app");
    let told = text(&output.stdout);
    let [ready, status, reloading, reloaded, stopping, code] = told.lines().collect::<Vec<_>>()[..]
    else {
        panic!("{told}{}", text(&output.stderr))
    };
    assert_eq!(
        [ready, status, reloaded, stopping, code],
        ["READY=1", "200", "READY=1", "STOPPING=1", "0"]
    );
    let micros = reloading.strip_prefix("RELOADING=1 MONOTONIC_USEC=").unwrap();
    assert!(micros.parse::<u64>().unwrap() > 0);
}

#[test]
fn a_socket_that_no_upstream_uses_is_an_error() {
    let output = launch("other");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("FileDescriptorName"), "{}", text(&output.stderr));
}
