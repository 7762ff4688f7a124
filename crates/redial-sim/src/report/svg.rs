//! A minimal SVG writer. Texts may be names of users' files, so everything is escaped.

use std::fmt::Write as _;

/// The style of figures, standalone and in a page. Colours follow the reader's light or dark mode.
pub(super) const STYLE: &str = "\
:root{--bg:#ffffff;--fg:#1c2530;--dim:#667382;--rule:#d5dbe2;--first:#8fb4dc;--retry:#e0702f;--served:#7a4fb5;\
--good:#188038;--bad:#d93025;--heat:#c4421a}\
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6eaef;--dim:#98a4b1;--rule:#343c46;--first:#456f9e;\
--retry:#f08a4b;--served:#b794f0;--good:#5fcf86;--bad:#ff7a70;--heat:#e8622f}}\
svg{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\
svg text{fill:var(--fg)}svg .dim{fill:var(--dim)}svg .small{font-size:12px}svg .name{font-weight:600;font-size:14px}\
svg .end{text-anchor:end}svg .mid{text-anchor:middle}svg .bg{fill:var(--bg)}svg .on{fill:#fff}\
svg .rule{stroke:var(--rule);stroke-width:1}svg .steady{stroke:var(--dim);stroke-width:1.2;stroke-dasharray:5 4}\
svg .first{fill:var(--first)}svg .retry{fill:var(--retry)}svg .fault{fill:var(--bad);fill-opacity:.14}\
svg .curve{fill:none;stroke-width:1.6;stroke-linejoin:round}svg .served{stroke:var(--served);stroke-dasharray:2 2}\
svg .good{stroke:var(--good)}svg .heat{fill:var(--heat)}svg .cell{fill:none;stroke:var(--rule)}\
svg .c0{stroke:#3b7dd8}svg .c1{stroke:#e0702f}svg .c2{stroke:#2c9f5e}svg .c3{stroke:#9a5fd0}svg .c4{stroke:#c9a100}\
svg .c5{stroke:#d04a86}svg .c6{stroke:#2aa5b5}svg .c7{stroke:#8a6d4f}";

/// A figure under construction.
pub(super) struct Svg {
    out: String,
}

impl Svg {
    /// `label` describes it for screen readers.
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        let mut svg = Self { out: String::new() };
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\"><title>{}</title>",
            escape(label)
        ));
        svg
    }

    /// Adds the style and a background, for a standalone file.
    pub(super) fn alone(mut self) -> Self {
        self.put(format_args!(
            "<style>{STYLE}</style><rect class=\"bg\" width=\"100%\" height=\"100%\"/>"
        ));
        self
    }

    pub(super) fn rect(&mut self, [x, y, width, height]: [f64; 4], class: &str, opacity: f64) {
        let opacity =
            if opacity < 1.0 { format!(" fill-opacity=\"{opacity:.2}\"") } else { String::new() };
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{class}\"{opacity}/>",
            short(x),
            short(y),
            short(width),
            short(height)
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.put(format_args!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{class}\"/>",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1)
        ));
    }

    pub(super) fn path(&mut self, points: impl Iterator<Item = (f64, f64)>, class: &str) {
        let mut d = String::new();
        for (index, (x, y)) in points.enumerate() {
            let verb = if index == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{verb}{} {}", short(x), short(y));
        }
        self.put(format_args!("<path d=\"{d}\" class=\"{class}\"/>"));
    }

    /// A path of steps, each with a height and an end; `ground` closes it to an area.
    pub(super) fn steps(
        &mut self,
        from: f64,
        steps: impl Iterator<Item = (f64, f64)>,
        ground: Option<f64>,
        class: &str,
    ) {
        let mut d = String::new();
        let mut last = None;
        for (y, end) in steps {
            let y = short(y);
            match &last {
                None => _ = write!(d, "M{} {y}", short(from)),
                Some(last) if *last == y => {}
                Some(_) => _ = write!(d, "V{y}"),
            }
            let _ = write!(d, "H{}", short(end));
            last = Some(y);
        }
        if let Some(ground) = ground {
            let _ = write!(d, "V{}H{}Z", short(ground), short(from));
        }
        self.put(format_args!("<path d=\"{d}\" class=\"{class}\"/>"));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), class: &str) {
        self.put(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"3\" class=\"{class}\"/>",
            short(x),
            short(y)
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" class=\"{class}\">{}</text>",
            short(x),
            short(y),
            escape(text)
        ));
    }

    /// A name in bold, followed by facts.
    pub(super) fn headline(&mut self, (x, y): (f64, f64), name: &str, facts: &str) {
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\"><tspan class=\"name\">{}</tspan><tspan class=\"dim\" dx=\"12\">{}</tspan></text>",
            short(x),
            short(y),
            escape(&brief(name, 48)),
            escape(facts)
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(what);
        self.out.push('\n');
    }
}

/// Escapes a text for an element or an attribute. Control characters, which XML does not allow, are replaced.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Shortens a long name to its end, which distinguishes paths best.
pub(super) fn brief(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length + 1 - most).collect();
    format!("…{end}")
}

/// A tenth of a pixel is precise enough.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
