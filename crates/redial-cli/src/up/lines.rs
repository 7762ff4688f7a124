//! The live lines of a terminal: where there is no browser, as over SSH, they show the same.

use std::io::{self, IsTerminal as _};

use redial_web::{Moment, UpstreamSample};

use crate::log::Form;
use crate::stderr::{LAST_FLUSH, Stderr};
use crate::text::sanitise;

/// Prints a line a second if there is a demo, and one for each change of the verdict's level otherwise.
pub(super) struct Lines {
    stderr: Stderr,
    /// The names of both sides of the demo.
    sides: Option<[&'static str; 2]>,
    /// Whether there is a line for each second.
    every_second: bool,
    seconds: u64,
    level: &'static str,
}

impl Lines {
    pub(super) fn new(sides: Option<[&'static str; 2]>, wanted: bool) -> Self {
        let every_second = sides.is_some() && (wanted || io::stderr().is_terminal());
        Self { stderr: Stderr::new(Form::Text), sides, every_second, seconds: 0, level: "calm" }
    }

    pub(super) fn show(&mut self, moment: &Moment) {
        self.seconds += 1;
        let verdict = &moment.state.verdict;
        let mut text = verdict.text.clone();
        if let Some(cause) = verdict.cause {
            text.push_str(&format!(", cause {cause}"));
        }
        let text = sanitise(&text);
        let is_change = std::mem::replace(&mut self.level, verdict.level) != verdict.level;
        match self.sides.filter(|_| self.every_second) {
            Some(sides) => {
                if self.seconds == 1 {
                    self.head(sides);
                }
                let of = |name| moment.sample.upstreams.iter().find(|it| it.name == name);
                let [left, right] = sides.map(|name| column(of(name)));
                self.line(&format!("{:>4} s  {left}  {right}  {text}", self.seconds));
            }
            None if is_change => self.line(&text),
            None => {}
        }
    }

    pub(super) fn line(&self, line: &str) {
        self.stderr.line(format!("{line}\n"));
    }

    pub(super) fn flush(&self) {
        self.stderr.flush(LAST_FLUSH);
    }

    fn head(&self, [left, right]: [&str; 2]) {
        self.line(&format!("per second {left:<20}{right}"));
        let columns = "attempts answered";
        self.line(&format!("        {columns}   {columns}  verdict"));
    }
}

fn column(sample: Option<&UpstreamSample>) -> String {
    let (attempts, answered) = sample.map_or((0, 0), |it| (it.attempts, it.succeeded));
    format!("{attempts:>8} {answered:>8} ")
}
