#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::kit::{Directory, free_port};

/// A server that was started for a test. Killed on drop.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) child: Child,
    pub(super) directory: Directory,
}

impl Server {
    /// Starts a program with a file. In both the arguments and the text, `PORT` is a free port, and `FOLDER` a folder of
    /// the test; in the arguments, `FILE` is the file.
    pub(super) fn start(program: &str, arguments: &[&str], text: &str) -> Self {
        // Another process may take the port before the program does.
        (0..3).find_map(|_| Self::try_start(program, arguments, text)).expect(program)
    }

    fn try_start(program: &str, arguments: &[&str], text: &str) -> Option<Self> {
        let port = free_port();
        let directory = Directory::new(&format!("{program}-{port}"));
        let path = directory.file("file");
        let folder = directory.0.to_str().unwrap();
        let fill = |text: &str| text.replace("PORT", &port.to_string()).replace("FOLDER", folder);
        fs::write(&path, fill(text)).unwrap();
        let mut command = Command::new(program);
        for argument in arguments {
            command.arg(fill(&argument.replace("FILE", path.to_str().unwrap())));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("cannot start {program}: {error}: run `cargo xtask setup`")
        });
        let mut server = Self { port, child, directory };
        for _ in 0..6000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub(super) fn python(text: &str) -> Self {
        Self::start("python3", &["FILE", "PORT"], text)
    }

    pub(super) fn node(text: &str) -> Self {
        Self::start("node", &["FILE", "PORT"], text)
    }

    pub(super) fn nginx(locations: &str) -> Self {
        let text = format!(
            "daemon off; master_process off; pid FOLDER/pid; error_log FOLDER/error.log;
             events {{ worker_connections 1000; }}
             http {{
               access_log off; client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy;
               fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
               server {{ listen 127.0.0.1:PORT; root FOLDER; {locations} }}
             }}"
        );
        Self::start("nginx", &["-p", "FOLDER", "-c", "FILE", "-e", "FOLDER/error.log"], &text)
    }

    /// As the target of an upstream.
    pub(super) fn url(&self) -> String {
        format!("\"http://127.0.0.1:{}\"", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client prints. It has to succeed.
pub(super) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}: run `cargo xtask setup`"));
    let error = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {printed}\n{error}");
    printed
}
