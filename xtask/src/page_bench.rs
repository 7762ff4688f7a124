//! How fast is the page, for the visitor and for the machine it runs on? The program that is shipped, in a real browser.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cargo::{root, target_dir};
use crate::chromium::{Chromium, Tab};
use crate::up::Up;
use crate::web::first_load;

/// How often the program is started, and the slider moved.
const STARTS: usize = 5;
const MOVES: usize = 60;
/// The samples that a chart shows at first. They arrive every second.
const PLOTTED: usize = 120;
/// How many live updates are traced.
const UPDATES: u64 = 20;
const UPSTREAMS: usize = 50;
const IDLE: Duration = Duration::from_secs(20);
/// The kernel's unit of processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Prints a table of figures and their bounds; the code is 1 if one is broken.
pub fn run() -> Result<u8, String> {
    let program = root().join(target_dir()).join("dist/redial");
    let dist = root().join("crates/redial-web/dist");
    let mut table = Table::default();
    let kilobytes = first_load(&dist)? as f64 / 1000.0;
    table.row("first load, compressed", kilobytes, "kB", 120.0);
    table.row("page served after the start", served(&program)?, "ms", 300.0);
    let ports = free_ports()?;
    let file = config(&ports)?;
    let file = file.to_str().ok_or("the path of the target folder is not UTF-8")?;
    idle(&program, file, &mut table)?;
    let browser = Chromium::start()?;
    slider(&browser.tab()?, &program, &mut table)?;
    let work = live_update(&browser.tab()?, &program, file, ports)?;
    table.row(&format!("main thread per live update, {UPSTREAMS} upstreams"), work, "ms", 8.0);
    print!("{}", table.text);
    Ok(u8::from(table.broken))
}

#[derive(Default)]
struct Table {
    text: String,
    broken: bool,
}

impl Table {
    fn row(&mut self, name: &str, value: f64, unit: &str, most: f64) {
        let verdict = if value <= most { "" } else { "  <- too much" };
        self.broken |= value > most;
        let _ = writeln!(
            self.text,
            "{name:<46} {value:>8.1} {unit:<3} (at most {most} {unit}){verdict}"
        );
    }
}

/// The median time from the start of the process to a response with the page.
fn served(program: &Path) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let begin = Instant::now();
        let up = Up::start_program(program, &[])?;
        let address = up.origin().trim_start_matches("http://").to_owned();
        let token = up.url().split_once("token=").map_or("", |(_, token)| token);
        let reply = get(&address, &format!("authorization: Bearer {token}\r\n"))?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        if !reply.starts_with("HTTP/1.1 200") {
            return Err(format!("the page was not served: {reply}"));
        }
    }
    Ok(quantile(&mut times, 0.5))
}

fn get(address: &str, fields: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET / HTTP/1.1\r\nhost: {address}\r\n{fields}connection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    ask().map_err(|error| error.to_string())
}

/// All are bound at once, so that no two are the same.
fn free_ports() -> Result<Vec<SocketAddr>, String> {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let bound: std::io::Result<Vec<_>> = (0..UPSTREAMS).map(|_| bind()).collect();
    let ports = bound.and_then(|bound| bound.iter().map(TcpListener::local_addr).collect());
    ports.map_err(|error| error.to_string())
}

/// A file with many upstreams, all of them the same server.
fn config(ports: &[SocketAddr]) -> Result<PathBuf, String> {
    let server = failing_server().map_err(|error| error.to_string())?;
    let mut text = String::new();
    for (number, listen) in ports.iter().enumerate() {
        let _ = writeln!(
            text,
            "[upstream.service-{number}]\nto = \"http://{server}\"\nlisten = \"{listen}\"\n"
        );
    }
    let path = root().join(target_dir()).join("page-bench.toml");
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path)
}

/// A server that fails every third request, so that all figures of an upstream change.
fn failing_server() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream = stream;
            let status = if number % 3 == 0 { "503 Service Unavailable" } else { "200 OK" };
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
    });
    Ok(address)
}

fn idle(program: &Path, file: &str, table: &mut Table) -> Result<(), String> {
    let up = Up::start_program(program, &[file])?;
    let id = up.id().ok_or("it has ended")?;
    sleep(Duration::from_secs(2));
    let before = ticks(id)?;
    sleep(IDLE);
    let used = (ticks(id)? - before) / TICKS_PER_SECOND / IDLE.as_secs_f64() * 100.0;
    table.row("idle, without the demo: of a core", used, "%", 1.0);
    table.row("idle, without the demo: memory", resident(id)?, "MB", 40.0);
    Ok(())
}

fn ticks(id: u32) -> Result<f64, String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).map_err(|error| error.to_string())?;
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum())
}

fn resident(id: u32) -> Result<f64, String> {
    let status =
        fs::read_to_string(format!("/proc/{id}/status")).map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
    kilobytes.map(|kilobytes| kilobytes / 1000.0).ok_or_else(|| "no VmRSS".to_owned())
}

/// From an input of the slider to the frame that shows its curve.
fn slider(tab: &Tab, program: &Path, table: &mut Table) -> Result<(), String> {
    const MOVE: &str = "(async () => {
        const slider = document.querySelector('input[type=range]');
        const caption = () => document.querySelector('.sentence').innerText + [...document.querySelectorAll('.figures dd')].map((it) => it.innerText);
        const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
        const before = caption();
        set.call(slider, TO);
        const begin = performance.now();
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        while (caption() === before && performance.now() - begin < 5000) await painted();
        return performance.now() - begin;
    })()";
    let up = Up::start_program(program, &["--page-only"])?;
    tab.open(&up.page("/playground"))?;
    tab.wait_for("document.querySelector('.sentence')?.getAttribute('aria-busy') === 'false'")?;
    let mut times = Vec::new();
    for number in 0..MOVES {
        let to = 20 + (number * 37) % 160;
        let took = tab.eval(&MOVE.replace("TO", &to.to_string()))?;
        times.push(took.as_f64().ok_or("no time")?);
        // The exact curve follows the coarse one, and is not what is measured.
        tab.wait_for("document.querySelector('.sentence').getAttribute('aria-busy') === 'false'")?;
    }
    table.row("slider, input to painted, p50", quantile(&mut times, 0.5), "ms", 100.0);
    table.row("slider, input to painted, p95", quantile(&mut times, 0.95), "ms", 100.0);
    Ok(())
}

/// The processor time of all tasks of the page's main thread for each second, in which one sample arrives.
fn live_update(
    tab: &Tab,
    program: &Path,
    file: &str,
    ports: Vec<SocketAddr>,
) -> Result<f64, String> {
    let up = Up::start_program(program, &[file])?;
    std::thread::spawn(move || {
        loop {
            for listen in &ports {
                let _ = get(&listen.to_string(), "");
                sleep(Duration::from_secs(1) / UPSTREAMS as u32);
            }
        }
    });
    tab.open(up.url())?;
    let deadline = Instant::now() + Duration::from_secs(2 * PLOTTED as u64);
    let shown = "Number(document.querySelector('.plot')?.getAttribute('aria-valuemax'))";
    while tab.eval(shown)?.as_f64().unwrap_or(0.0) < PLOTTED as f64 - 2.0 {
        if Instant::now() > deadline {
            return Err("the chart did not fill".to_owned());
        }
        sleep(Duration::from_secs(1));
    }
    let choices = tab.eval("document.querySelectorAll('select option[value^=service]').length")?;
    if choices != json!(UPSTREAMS) {
        return Err(format!("the page has {choices} upstreams instead of {UPSTREAMS}"));
    }
    // Without the exclusion, all categories are traced, which takes longer than the page.
    let tasks = json!({ "includedCategories": ["disabled-by-default-devtools.timeline"], "excludedCategories": ["*"] });
    tab.call("Tracing.start", &json!({ "traceConfig": tasks }))?;
    sleep(Duration::from_secs(UPDATES));
    tab.call("Tracing.end", &json!({}))?;
    while tab.events("Tracing.tracingComplete").is_empty() {
        sleep(Duration::from_millis(50));
    }
    let events: Vec<Value> = tab
        .events("Tracing.dataCollected")
        .iter()
        .flat_map(|part| part["value"].as_array().cloned().unwrap_or_default())
        .collect();
    let main = |event: &&Value| {
        event["name"] == "thread_name" && event["args"]["name"] == "CrRendererMain"
    };
    let threads: Vec<_> =
        events.iter().filter(main).map(|event| (&event["pid"], &event["tid"])).collect();
    let tasks = events.iter().filter(|event| {
        event["name"] == "RunTask" && threads.contains(&(&event["pid"], &event["tid"]))
    });
    let micros: f64 = tasks.filter_map(|event| event["tdur"].as_f64()).sum();
    if micros <= 0.0 {
        return Err("the trace has no task of the page".to_owned());
    }
    Ok(micros / 1000.0 / UPDATES as f64)
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (part * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
