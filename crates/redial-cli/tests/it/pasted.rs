//! Every command block of README.md and docs/ can be pasted: it runs here, or a list says why it does not, or which other
//! test runs it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Scratch, program, redial, text};

/// The lines of blocks that are not run here, by how they begin. `""` is the whole block.
const LEFT_OUT: [(&str, &str, &str); 16] = [
    ("README.md", "cargo run --release -- up", "builds the program"),
    ("README.md", "cargo xtask test", "runs all tests"),
    ("docs/fidelity.md", "cargo xtask bench", "a bench"),
    ("docs/fidelity.md", "cargo run --release -- demo", "builds the program"),
    ("docs/which-policy.md", "", "a bench"),
    ("docs/fleet-budgets.md", "REDIAL_FLEET_PICTURE=", "`fleet_proof`, which it names"),
    ("docs/fleet-budgets.md", "cargo test", "the test that it names"),
    ("docs/fleet-budgets.md", "cargo run -p redial --example fleet", "`fleet_proof`"),
    ("docs/fleet-budgets.md", "redial run", "`run::fleet::the_commands_of_the_page_work`"),
    ("docs/fleet-budgets.md", "redis-cli", "`run::fleet::the_commands_of_the_page_work`"),
    ("docs/page.md", "curl", "`up`: needs a page that runs, and its token"),
    ("docs/seeing-a-storm.md", "cargo run -p redial --example storm", "`doctor::pages`"),
    ("docs/seeing-a-storm.md", "curl -X POST", "`doctor::pages`"),
    ("docs/seeing-a-storm.md", "redial doctor http://localhost:9000", "`doctor::pages`"),
    ("docs/seeing-a-storm.md", "redial doctor 'http://127.0.0.1:7575", "`up`: needs a token"),
    ("docs/webhooks.md", "redial queue", "`queue::deliver::the_page_on_webhooks_and_a_shell`"),
];

/// What the blocks find on a reader's machine. `redial` in a terminal is stopped with Ctrl-C; here it gets a time or a signal.
const MACHINE: &str = r#"
redial() {
  case "$1" in
    up) command redial "$@" --for 1s ;;
    check | doctor) command redial "$@" || test $? = 1 ;; # it found something
    proxy)
      case "$*" in
        *--*) command redial "$@" ;;
        *) command redial "$@" 2> log & pid=$!; until grep -qs 'listens on' log; do sleep 0.1; done; kill $pid; wait $pid ;;
      esac ;;
    *) command redial "$@" ;;
  esac
}
serve() { (python3 -m http.server --bind 127.0.0.1 --directory www "$1" > /dev/null 2>&1 & echo $! >> servers); }
trap 'test ! -e servers || kill $(cat servers)' EXIT
ready() { until (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null; do sleep 0.1; done; }
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages, by their paths in the repository.
fn pages() -> Vec<(String, String)> {
    let folders = ["docs", "docs/rules"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let files = files.map(|file| file.unwrap().path()).chain([root().join("README.md")]);
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    pages.map(read).collect()
}

/// The fenced blocks of a page with this head.
fn blocks<'a>(page: &'a str, head: &'a str) -> impl Iterator<Item = &'a str> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced.filter_map(move |block| block.strip_prefix(head)?.strip_prefix('\n'))
}

/// The lines of a block that are to be run, and marks the entries that leave others out.
fn kept<'a>(page: &str, block: &'a str, used: &mut [bool]) -> Vec<&'a str> {
    let is_kept = |line: &&str| {
        let entry =
            LEFT_OUT.iter().position(|(of, begins, _)| *of == page && line.starts_with(begins));
        if let Some(entry) = entry {
            used[entry] = true;
        }
        entry.is_none()
    };
    block.lines().filter(is_kept).collect()
}

/// The files that the commands of a page read: those that it shows, and those that a reader has.
fn files(name: &str, page: &str, ports: &dyn Fn(&str) -> String) -> Scratch {
    let files = Scratch::new("pasted");
    files.file("retry.toml", "[policy.scores]\nattempts = 3\n");
    for block in page.split("\n```").skip(1) {
        let (head, shown) = block.split_once('\n').unwrap_or_default();
        if let Some((_, file)) = head.split_once(' ').filter(|(_, file)| file.contains('.')) {
            files.file(file, shown);
        }
    }
    let clean = |file: &str| fs::read(root().join("ops/clean-configs").join(file)).unwrap();
    files.file("k8s/service.yaml", clean("istio/istio.yaml"));
    files.file("istio.yaml", clean("istio/istio.yaml"));
    files.file("virtual-service.yaml", clean("istio/istio.yaml"));
    files.file("grpc.json", clean("grpc/grpc.json"));
    let sidecar = blocks(page, "toml").find(|block| block.contains("[upstream."));
    let upstream = "[upstream.api]\nlisten = '127.0.0.1:0'\nto = 'http://127.0.0.1:9'\n";
    let sidecar = if name == "docs/sidecar.md" { sidecar.unwrap() } else { upstream };
    files.file("proxy.toml", format!("[proxy]\nadmin = 'none'\n{}", ports(sidecar)));
    files.file("my.toml", redial(&["presets", "web"]).stdout);
    files.file("my-scenario.toml", fs::read(root().join("bench/scenarios/blip.toml")).unwrap());
    files.file("ops.toml", "[policy.deploy]\nattempts = 2\n");
    files.file("www/index.html", "a shop\n");
    files.file("www/api", "an answer\n");
    files.file(
        "www/stats/prometheus",
        "envoy_cluster_upstream_rq_total{envoy_cluster_name=\"shop\"} 7\n",
    );
    for file in ["mail", "migrate.sql", "app.py"] {
        files.file(file, "");
    }
    // The programs of others, of which only the exit code matters here.
    for other in ["helm", "pg_dump", "psql", "python", "sendmail", "deploy.sh", "client"] {
        let place =
            if other.contains(['.', 'c']) { other.to_owned() } else { format!("bin/{other}") };
        let script = if other == "helm" { "cat istio.yaml" } else { "cat > /dev/null" };
        let path = files.file(&place, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    files
}

/// Runs the blocks of a page one after the other in one folder, and returns how many lines they have.
fn paste(name: &str, page: &str, used: &mut [bool]) -> usize {
    let scripts: Vec<_> = blocks(page, "sh").map(|block| kept(name, block, used)).collect();
    let scripts: Vec<_> = scripts.into_iter().filter(|lines| !lines.is_empty()).collect();
    let lines = scripts.iter().map(Vec::len).sum();
    if lines == 0 {
        return 0;
    }
    let free = [(); 5].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let free = free.map(|listener| listener.local_addr().unwrap().port().to_string());
    let ports = |text: &str| {
        let fixed = ["8900", "8080", "9901", "9001", "7575"];
        fixed
            .iter()
            .zip(&free)
            .fold(text.to_owned(), |text, (fixed, free)| text.replace(fixed, free))
    };
    let files = files(name, page, &ports);
    let serve = [&free[1], &free[2]].map(|port| format!("serve {port}; ready {port}\n"));
    let text_of_scripts: Vec<_> = scripts.iter().map(|lines| lines.join("\n")).collect();
    let script = ports(&text_of_scripts.join("\n"))
        // A slow machine needs longer than a reader.
        .replace("sleep 1", &format!("ready {}", free[0]))
        .replace("https://example.com", &format!("http://127.0.0.1:{}", free[1]));
    let needs_servers = script.contains("curl") || script.contains("doctor");
    let serve = if needs_servers { serve.concat() } else { String::new() };
    let redial = Path::new(env!("CARGO_BIN_EXE_redial")).parent().unwrap().display();
    let path = format!("{}:{redial}:{}", files.path("bin"), std::env::var("PATH").unwrap());
    let mut bash = program("bash");
    bash.args(["-m", "-euo", "pipefail", "-c", &format!("{MACHINE}{serve}{script}")]);
    bash.current_dir(files.path("")).env("PATH", path).env_remove("REDIAL_STORE");
    bash.env("HOME", files.path("")).env("XDG_RUNTIME_DIR", files.path(""));
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{name}\n{script}\n{}", text(&output.stderr));
    lines
}

#[test]
fn every_command_block_runs_or_is_listed() {
    let (mut used, mut lines) = ([false; LEFT_OUT.len()], 0);
    let pages = pages();
    std::thread::scope(|scope| {
        let pages = pages.iter().map(|(name, page)| {
            scope.spawn(|| {
                let mut used = [false; LEFT_OUT.len()];
                (paste(name, page, &mut used), used)
            })
        });
        for page in pages.collect::<Vec<_>>() {
            let (run, left_out) = page.join().unwrap();
            lines += run;
            used.iter_mut().zip(left_out).for_each(|(used, here)| *used |= here);
        }
    });
    let stale = used.iter().position(|used| !used).map(|entry| LEFT_OUT[entry]);
    assert_eq!(stale, None, "no page has this line");
    assert!(lines > 30, "{lines}");
}

#[test]
fn a_python_program_survives_a_server_that_fails_every_second_request() {
    let page = fs::read_to_string(root().join("docs/sidecar.md")).unwrap();
    let pasted = blocks(&page, "sh").find(|block| block.starts_with("cat > server.py")).unwrap();
    let port = crate::ports::free_address().port();
    let pasted = pasted
        .replace("redial proxy", &format!("{} proxy", env!("CARGO_BIN_EXE_redial")))
        .replace("8900", &port.to_string())
        // A slow machine needs longer than a reader.
        .replace("sleep 1", "until (: < /dev/tcp/127.0.0.1/PORT) 2> /dev/null; do sleep 0.1; done")
        .replace("PORT", &port.to_string());
    let files = Scratch::new("pasted-python");
    let output = program("bash").args(["-m", "-c", &pasted]).current_dir(files.path("")).output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "200\n".repeat(5), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("attempts=2").count(), 5, "{}", text(&output.stderr));
}
