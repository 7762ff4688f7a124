//! A visitor who simulates as much as possible, beside a sidecar that has requests to forward.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use redial_policy::file::{Address, File};
use redial_proxy::Proxy;
use redial_web::App;
use serde_json::{Value, json};

use crate::page::{Page, Response, until};

/// A sidecar, and its upstream, which answers everything.
fn sidecar() -> (Proxy, SocketAddr) {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = upstream.local_addr().unwrap();
    thread::spawn(move || {
        for stream in upstream.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    let file = format!(
        "[proxy]\nadmin = \"none\"\nlog = \"none\"\nthreads = 1\n\
         [upstream.busy]\nlisten = \"127.0.0.1:0\"\nto = \"http://{to}\"\n"
    );
    let proxy = Proxy::start(&File::read(&file).unwrap()).unwrap();
    let Address::Tcp(address) = proxy.addresses()[0].1 else { panic!("no TCP") };
    (proxy, address)
}

/// Answers the requests of a connection.
fn answer(stream: TcpStream) {
    let mut write = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty()
            && write.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_err()
        {
            return;
        }
    }
}

fn post(page: &Page, path: &str, body: &Value) -> Response {
    let headers = [page.host(), page.bearer(), "Content-Type: application/json".to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    page.raw(&format!("POST {path}"), &headers, body.to_string().as_bytes())
}

fn json(response: &Response) -> Value {
    serde_json::from_str(&response.body)
        .unwrap_or_else(|wrong| panic!("{wrong}: {}", response.body))
}

#[test]
fn visitors_who_simulate_leave_the_sidecar_its_time() {
    let (proxy, address) = sidecar();
    let page = Page::new(App { proxy: Some(proxy.admin_pages()), ..App::default() });
    // Each takes far longer than all requests below. One is computed, and eight wait.
    let run = json!({ "kind": "exact", "ask": { "story": "collapse" }, "runs": 30 });
    let mut ids = Vec::new();
    let refused = loop {
        let started = post(&page, "/api/runs", &run);
        if started.status != 200 {
            break started;
        }
        ids.push(json(&started)["id"].as_u64().unwrap());
        assert!(ids.len() <= 9, "simulations that wait are bounded");
    };
    assert!(ids.len() >= 8, "{ids:?}");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("too many simulations are waiting"), "{}", refused.body);
    // The other thread computes what visitors wait for.
    let ask = json!({ "story": "collapse" });
    thread::scope(|scope| {
        let visitors: Vec<_> =
            (0..8).map(|_| scope.spawn(|| post(&page, "/api/simulate", &ask).status)).collect();
        let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
        for _ in 0..200 {
            let request = b"GET /orders HTTP/1.1\r\nHost: orders\r\n\r\n";
            stream.get_mut().write_all(request).unwrap();
            assert_eq!(until(&mut stream, "HTTP/1.1 "), "200 OK");
            until(&mut stream, "\r\n");
            let mut body = [0; 2];
            stream.read_exact(&mut body).unwrap();
            assert_eq!(&body, b"hi");
        }
        for visitor in visitors {
            let status = visitor.join().unwrap();
            assert!(matches!(status, 200 | 503), "{status}");
        }
    });
    // They were answered while the first was computed, and the others were waiting in their order.
    let states = ids.iter().map(|id| json(&page.get(&format!("/api/runs/{id}"))));
    let progress = states.map(|it| {
        assert_eq!(it["state"], "running", "{it}");
        it["progress"].as_f64().unwrap()
    });
    let progress: Vec<f64> = progress.collect();
    assert!(progress[0] < 1.0 && progress[1..].iter().all(|it| *it == 0.0), "{progress:?}");
    for id in ids {
        post(&page, &format!("/api/runs/{id}/cancel"), &json!({}));
    }
    proxy.drain();
}
