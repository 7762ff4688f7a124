//! What commands print as JSON matches the schema that `redial schema --output NAME` prints.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use boon::{Compiler, Schemas};
use serde_json::Value;

use crate::{Scratch, text};

/// Runs commands in a directory, and validates what they print.
struct Outputs {
    scratch: Scratch,
    validated: BTreeSet<String>,
}

impl Outputs {
    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.current_dir(&self.scratch.0).env("REDIAL_STORE", "jobs.db").args(args);
        command
    }

    /// Runs a command, and returns its output, whatever its exit code.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        text(&output.stdout).to_owned()
    }

    /// The JSON of a command matches the schema with this name.
    #[track_caller]
    fn check(&mut self, name: &str, args: &[&str]) {
        let printed = self.run(args);
        self.validate(name, args, &printed);
    }

    /// `printed` is one document, or a document per line.
    #[track_caller]
    fn validate(&mut self, name: &str, args: &[&str], printed: &str) {
        let schema = self.run(&["schema", "--output", name]);
        let schema: Value =
            serde_json::from_str(&schema).unwrap_or_else(|_| panic!("{name}: no schema"));
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("schema.json", schema).unwrap();
        let index = compiler
            .compile("schema.json", &mut schemas)
            .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        let documents = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
        let documents: Vec<Value> = documents.map(Result::unwrap).collect();
        assert!(!documents.is_empty(), "{args:?} prints nothing");
        for document in documents {
            if let Err(wrong) = schemas.validate(&document, index) {
                panic!("{name}: {args:?}\n{wrong:#}\n{document:#}");
            }
        }
        self.validated.insert(name.to_owned());
    }
}

#[test]
fn every_output_matches_its_schema() {
    let mut outputs = Outputs { scratch: Scratch::new("schemas"), validated: BTreeSet::new() };
    configs(&mut outputs);
    simulations(&mut outputs);
    queues(&mut outputs);
    outputs.check("demo", &["demo", "--seconds", "2", "--json"]);
    let all: BTreeSet<String> =
        outputs.run(&["schema", "--list"]).lines().map(str::to_owned).collect();
    assert_eq!(outputs.validated, all, "every schema has an output here");
}

fn configs(outputs: &mut Outputs) {
    let wrong = "[setting]\nclients = 500\n[policy.a]\nbudget = 'none'\nattempts = 1000000\n\
                 # redial: allow no-jitter because this is a test\nbackoff.jitter = 'none'\n[policy.b]\nhint = 'ignore'\n\
                 [fleet.x]\nredis = 'redis://localhost'\n[[route]]\npolicy = 'b'\nmethods = ['POST']\n";
    outputs.scratch.file("wrong.toml", wrong);
    outputs.scratch.file("broken.toml", "[policy.a]\nattempts = 0\n");
    let preset = outputs.run(&["presets", "web"]);
    outputs.scratch.file("web.toml", preset);
    outputs.check("check", &["check", "wrong.toml", "broken.toml", "missing.toml", "--json"]);
    outputs.check("check", &["check", "wrong.toml", "--simulate", "--format", "json"]);
    outputs.check("check-rubric", &["check", "--rubric", "wrong.toml", "web.toml", "--json"]);
    outputs.check("check-rules", &["check", "--list-rules", "--json"]);
    outputs.check("presets", &["presets", "--json"]);
    outputs.check("preset", &["presets", "web", "--json"]);
    outputs.check("peers", &["presets", "--peers", "--json"]);
    outputs.check("explain", &["explain", "--policy", "web", "--json"]);
    let calls = "503,timeout,200; 429@retry-after=90";
    outputs.check("explain", &["explain", "--policy", "web.toml", "--outcomes", calls, "--json"]);
    outputs.scratch.file("istio.yaml", outputs.run(&["export", "web.toml", "--to", "istio"]));
    outputs.check("explain", &["explain", "--policy", "istio.yaml", "--json"]);
    outputs.check("import", &["import", "web.toml", "--json"]);
    outputs.check("export", &["export", "web.toml", "--to", "envoy", "--json"]);
}

fn simulations(outputs: &mut Outputs) {
    outputs.check("sim-list", &["sim", "--list", "--json"]);
    outputs.check("sim", &["sim", "blip", "--runs", "1", "--json"]);
    outputs.check("sim", &["sim", "capacity-loss", "--runs", "1", "--json", "--series"]);
    outputs.check("sim", &["sim", "layers", "--runs", "1", "--json"]);
    let setting = ["sim", "--rate", "200/s", "--latency", "50ms", "--runs", "1", "--json"];
    outputs.check("sim", &setting);
    let sweep = ["sim", "capacity-loss", "--sweep", "load=0.3,0.9", "--sweep", "clients=5,10"];
    outputs.check("sim-sweep", &[&sweep[..], &["--runs", "1", "--json"]].concat());
    outputs.check(
        "sim-bench",
        &["sim", "--bench", "blip", "--policy", "web", "--runs", "1", "--json"],
    );
    outputs
        .check("sim-contention", &["sim", "contention", "--clients", "5", "--runs", "2", "--json"]);
}

fn queues(outputs: &mut Outputs) {
    outputs.check("queue-add", &["queue", "add", "--key", "k", "--payload", "x", "--json"]);
    outputs.check(
        "queue-add",
        &["queue", "send", "-d", "x", "http://127.0.0.1:9/", "--after", "1h", "--json"],
    );
    outputs.run(&["queue", "set", "--rate", "100/s"]);
    outputs.check("job", &["queue", "ls", "--json"]);
    outputs.check("job", &["queue", "show", "1", "--json"]);
    let fails = ["--exec", "exit 65", "--stop-on-exit", "65", "--until", "nothing-due"];
    outputs.run(&[&["queue", "work"], &fails[..]].concat());
    outputs.check("job", &["dlq", "ls", "--json"]);
    outputs.check("job", &["dlq", "show", "1", "--json"]);
    outputs.check("queue-stats", &["queue", "stats", "--json"]);
    outputs.check("queue-clock", &["queue", "clock", "--json"]);
    outputs.check("queue-clock", &["queue", "clock", "--repair", "--json"]);
    outputs.check("queue-verify", &["queue", "verify", "--json"]);
    outputs.check("dlq-redrive", &["dlq", "redrive", "--id", "1", "--json"]);
    outputs.check("queue-rm", &["queue", "rm", "1", "--json"]);
    outputs.check("dlq-purge", &["dlq", "purge", "--all", "--json"]);
    doctor(outputs);
}

/// The metrics of a real worker.
fn doctor(outputs: &mut Outputs) {
    let mut worker =
        outputs.command(&["queue", "work", "--exec", "cat", "--metrics", "127.0.0.1:0"]);
    let mut worker = worker.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut log = BufReader::new(worker.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = log.find_map(|line| {
        let (_, url) = line.split_once("http://")?;
        Some(format!("http://{}", url.split_whitespace().next()?))
    });
    let url = url.expect("the log has the address");
    let args = ["doctor", &url, "--for", "200ms", "--json"];
    let printed = outputs.run(&args);
    worker.kill().unwrap();
    worker.wait().unwrap();
    outputs.validate("doctor", &args, &printed);
}
