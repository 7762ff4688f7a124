use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::pipe::Pipe;

/// How long a condition may take on the slowest machine.
const WAIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(30);

/// The colours that the visitor's system asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on a light ground.
    Light,
    /// Light text on a dark ground.
    Dark,
}

/// A tab of a [`Chromium`](super::Chromium), closed on drop.
#[derive(Debug)]
pub struct Tab {
    pipe: Arc<Pipe>,
    session: String,
    target: String,
    context: String,
}

impl Tab {
    pub(super) fn new(
        pipe: Arc<Pipe>,
        session: String,
        target: String,
        context: String,
    ) -> Result<Self, String> {
        pipe.listen(&session);
        let tab = Self { pipe, session, target, context };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), &json!({}))?;
        }
        tab.size(1280, 900)?;
        Ok(tab)
    }

    pub(super) fn context(&self) -> &str {
        &self.context
    }

    /// A command of the DevTools protocol.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, String> {
        self.pipe.call(Some(&self.session), method, params)
    }

    /// The parameters of the events with this name so far.
    #[must_use]
    pub fn events(&self, method: &str) -> Vec<Value> {
        self.pipe.events(&self.session, method)
    }

    /// Goes to an address, and waits until its document is loaded.
    pub fn open(&self, url: &str) -> Result<(), String> {
        let gone = self.call("Page.navigate", &json!({ "url": url }))?;
        if let Some(error) = gone["errorText"].as_str() {
            return Err(format!("{url}: {error}"));
        }
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// The value of an expression in the page; a promise is awaited.
    pub fn eval(&self, expression: &str) -> Result<Value, String> {
        let evaluate = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut done = self.call("Runtime.evaluate", &evaluate)?;
        match done.get("exceptionDetails") {
            None => Ok(done["result"]["value"].take()),
            Some(thrown) => {
                let said = thrown["exception"]["description"].as_str().or(thrown["text"].as_str());
                Err(format!("{expression}: {}", said.unwrap_or("threw")))
            }
        }
    }

    /// Waits until an expression is true.
    pub fn wait_for(&self, expression: &str) -> Result<(), String> {
        let until = Instant::now() + WAIT;
        loop {
            // A navigation may destroy the context of the expression.
            let last = self.eval(&format!("!!({expression})"));
            if last == Ok(Value::Bool(true)) {
                return Ok(());
            }
            if Instant::now() >= until {
                let seen = self.eval("document.body.innerText.slice(0, 2000)").unwrap_or_default();
                let seen = seen.as_str().unwrap_or_default();
                return Err(format!(
                    "never true: {expression} ({last:?}); the page shows:\n{seen}"
                ));
            }
            sleep(POLL);
        }
    }

    /// Waits until the page shows a text.
    pub fn wait_for_text(&self, text: &str) -> Result<(), String> {
        self.wait_for(&format!("document.body.innerText.includes({})", json!(text)))
    }

    /// Waits for an element and clicks it, as a pointer does. `name` is its text or its label; empty for any.
    pub fn click(&self, css: &str, name: &str) -> Result<(), String> {
        let find = find(css, name);
        self.wait_for(&format!("{find} && !{find}.disabled"))?;
        let place = self.eval(&format!(
            "(() => {{ const it = {find}; it.scrollIntoView({{ block: 'center', inline: 'center' }}); \
             const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ))?;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Replaces the text of a field, and leaves it.
    pub fn fill(&self, css: &str, name: &str, text: &str) -> Result<(), String> {
        let find = find(css, name);
        self.wait_for(&find)?;
        self.eval(&format!("{find}.focus(), {find}.select?.()"))?;
        self.call("Input.insertText", &json!({ "text": text }))?;
        self.press("Tab")
    }

    /// Focuses an element, as the keyboard would.
    pub fn focus(&self, css: &str, name: &str) -> Result<(), String> {
        let find = find(css, name);
        self.wait_for(&find)?;
        self.eval(&format!("{find}.focus()")).map(drop)
    }

    /// Presses a key: a name such as `ArrowRight`.
    pub fn press(&self, key: &str) -> Result<(), String> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => return Err(format!("{key}: not a key that this knows")),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// The size of the window's content.
    pub fn size(&self, width: u32, height: u32) -> Result<(), String> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// What the visitor's system prefers. Motion is reduced, so that a picture is always the same.
    pub fn scheme(&self, scheme: Scheme) -> Result<(), String> {
        let value = if scheme == Scheme::Dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": value },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features })).map(drop)
    }

    /// Writes a picture of the window as PNG.
    pub fn screenshot(&self, path: &Path) -> Result<(), String> {
        let taken = self.call("Page.captureScreenshot", &json!({ "format": "png" }))?;
        let data = taken["data"].as_str().unwrap_or_default();
        let png = STANDARD.decode(data).map_err(|error| error.to_string())?;
        std::fs::write(path, png).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What the console and the browser complained about.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let logged = self.events("Log.entryAdded").into_iter().map(|event| event["entry"].clone());
        let logged =
            logged.filter(|entry| entry["level"] == "error" || entry["level"] == "warning");
        let logged = logged.map(|entry| format!("{} {}", entry["text"], entry["url"]));
        let console = self.events("Runtime.consoleAPICalled").into_iter();
        let console =
            console.filter(|event| event["type"] == "error" || event["type"] == "warning");
        let console = console.map(|event| event["args"].to_string());
        let thrown = self.events("Runtime.exceptionThrown").into_iter();
        let thrown = thrown.map(|event| event["exceptionDetails"].to_string());
        logged.chain(console).chain(thrown).collect()
    }

    /// The addresses that were requested and do not start with `origin`.
    #[must_use]
    pub fn requests_outside(&self, origin: &str) -> Vec<String> {
        let requests = self.events("Network.requestWillBeSent").into_iter();
        let urls = requests.filter_map(|event| event["request"]["url"].as_str().map(str::to_owned));
        urls.filter(|url| !url.starts_with(origin) && !url.starts_with("data:")).collect()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // The browser may be gone already.
        let _ = self.pipe.call(None, "Target.closeTarget", &json!({ "targetId": self.target }));
        self.pipe.forget(&self.session);
    }
}

/// An expression for the first visible element with a name.
fn find(css: &str, name: &str) -> String {
    let (css, name) = (json!(css), json!(name));
    format!(
        "[...document.querySelectorAll({css})].find((it) => {name} === '' || it.innerText?.trim() === {name} \
         || it.getAttribute('aria-label') === {name} || it.labels?.[0]?.innerText.trim().startsWith({name}))"
    )
}
