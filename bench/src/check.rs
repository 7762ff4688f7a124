//! How long does a review of a whole cluster take?
//!
//! Ten thousand manifests as in a cluster: most have no retry config, but all have to be read to know that. They
//! are written to a temporary directory, and the command runs on it as a user runs it, on one processor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fmt, fs};

use serde::Serialize;

const FILES: usize = 10_000;
const RUNS: usize = 5;
/// The bar, in seconds.
const BAR_S: f64 = 2.0;

/// The result.
#[derive(Serialize)]
pub(crate) struct Report {
    files: usize,
    bytes: usize,
    /// The fastest of several runs: the others were disturbed.
    seconds: f64,
    /// Processor time: the least of several runs.
    processor_seconds: f64,
    files_per_second: f64,
    /// The last line that the command printed.
    said: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, bytes, seconds, processor_seconds, files_per_second, said } = self;
        let red = if *processor_seconds > BAR_S { "  RED" } else { "" };
        let each = bytes / files;
        writeln!(f, "redial check, {files} manifests of {each} bytes each, one processor")?;
        writeln!(
            f,
            "  {processor_seconds:.2} s of the processor (at most {BAR_S} s), {files_per_second:.0} files/s, \
             {seconds:.2} s by the clock{red}"
        )?;
        writeln!(f, "  {said}")
    }
}

pub(crate) fn measure() -> Result<Report, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?.with_file_name("redial");
    if !program.exists() {
        return Err(format!(
            "{}: build it first (`cargo xtask bench check` does)",
            program.display()
        ));
    }
    let directory = env::temp_dir().join(format!("redial-bench-check-{}", std::process::id()));
    let measured = generate(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))
        .and_then(|bytes| time(&program, &directory, bytes));
    // A leftover in the temporary directory does no harm.
    let _ = fs::remove_dir_all(&directory);
    measured
}

fn time(program: &PathBuf, directory: &Path, bytes: usize) -> Result<Report, String> {
    let (mut seconds, mut processor_seconds, mut said) =
        (f64::INFINITY, f64::INFINITY, String::new());
    for _ in 0..RUNS {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program).arg("check").arg(directory);
        let (started, before) = (Instant::now(), of_children()?);
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("taskset: {error}"))?;
        seconds = seconds.min(started.elapsed().as_secs_f64());
        processor_seconds = processor_seconds.min(of_children()? - before);
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("redial check: {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        said = text.lines().last().unwrap_or_default().to_owned();
    }
    let files_per_second = FILES as f64 / processor_seconds;
    Ok(Report { files: FILES, bytes, seconds, processor_seconds, files_per_second, said })
}

/// The processor time of our finished child processes, in user and in system mode: fields 16 and 17 of proc(5), in
/// hundredths of a second.
fn of_children() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|it| it.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}

/// Writes the manifests, a hundred in a directory, and returns their total size in bytes.
fn generate(directory: &Path) -> std::io::Result<usize> {
    let mut bytes = 0;
    for number in 0..FILES {
        let team = directory.join(format!("team-{:03}", number / 100));
        fs::create_dir_all(&team)?;
        let text = manifest(number);
        bytes += text.len();
        fs::write(team.join(format!("service-{number:05}.yaml")), text)?;
    }
    Ok(bytes)
}

/// Of a hundred, ten have an Istio route and five a Gateway API route; the others have no retry config.
fn manifest(number: usize) -> String {
    let name = format!("service-{number:05}");
    let head = |version: &str, kind: &str| {
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: team-{:03}\n  labels:\n    \
             app.kubernetes.io/name: {name}\n    app.kubernetes.io/part-of: shop\n    app.kubernetes.io/managed-by: deploy\n",
            number / 100
        )
    };
    match number % 100 {
        0..10 => head("networking.istio.io/v1", "VirtualService") + &virtual_service(&name),
        10..15 => head("gateway.networking.k8s.io/v1", "HTTPRoute") + &http_route(&name),
        15..55 => {
            head("v1", "Service")
                + &service(&name)
                + "---\n"
                + &head("v1", "ConfigMap")
                + &config_map(&name)
        }
        _ => head("apps/v1", "Deployment") + &deployment(&name),
    }
}

fn virtual_service(name: &str) -> String {
    let mut text = format!("spec:\n  hosts: [{name}]\n  http:\n");
    for route in 0..5 {
        text.push_str(&format!(
            "  - name: route-{route}\n    match:\n    - uri:\n        prefix: /api/v1/resource-{route}\n      method:\n        exact: GET\n    \
             route:\n    - destination:\n        host: {name}\n        port:\n          number: 8080\n    timeout: 5s\n    \
             retries:\n      attempts: 2\n      perTryTimeout: 1s\n      retryOn: gateway-error,connect-failure,refused-stream\n"
        ));
    }
    text
}

fn http_route(name: &str) -> String {
    let mut text = format!(
        "spec:\n  parentRefs:\n  - name: public\n  hostnames: [{name}.example]\n  rules:\n"
    );
    for rule in 0..5 {
        text.push_str(&format!(
            "  - matches:\n    - path:\n        type: PathPrefix\n        value: /api/v1/resource-{rule}\n    backendRefs:\n    - name: {name}\n      \
             port: 8080\n    timeouts:\n      request: 5s\n      backendRequest: 1s\n    retry:\n      codes: [502, 503, 504]\n      \
             attempts: 2\n      backoff: 100ms\n"
        ));
    }
    text
}

fn service(name: &str) -> String {
    format!(
        "spec:\n  type: ClusterIP\n  selector:\n    app.kubernetes.io/name: {name}\n  ports:\n  - name: http\n    port: 80\n    targetPort: 8080\n    \
         protocol: TCP\n  - name: metrics\n    port: 9090\n    targetPort: 9090\n    protocol: TCP\n"
    )
}

fn config_map(name: &str) -> String {
    let settings =
        (0..20).map(|it| format!("  SETTING_{it:02}: \"the value of {name} number {it}\"\n"));
    format!("data:\n{}", settings.collect::<String>())
}

fn deployment(name: &str) -> String {
    let variables = (0..12).map(|it| {
        format!("        - name: VARIABLE_{it:02}\n          value: \"value {it} of {name}\"\n")
    });
    format!(
        "spec:\n  replicas: 3\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: {name}\n  template:\n    metadata:\n      labels:\n        \
         app.kubernetes.io/name: {name}\n    spec:\n      containers:\n      - name: main\n        image: shop/{name}:1.2.3\n        ports:\n        \
         - containerPort: 8080\n          name: http\n        resources:\n          requests: {{cpu: 100m, memory: 128Mi}}\n          \
         limits: {{memory: 256Mi}}\n        readinessProbe:\n          httpGet: {{path: /ready, port: http}}\n          periodSeconds: 5\n        \
         env:\n{}",
        variables.collect::<String>()
    )
}
