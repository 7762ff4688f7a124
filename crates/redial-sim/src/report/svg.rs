//! A minimal SVG writer. Texts may be names of users' files, so everything is escaped.

use std::fmt::Write as _;

/// The style of figures, standalone and in a page. Colours follow the reader's light or dark mode.
pub(super) const STYLE: &str = "\
:root{--bg:#ffffff;--fg:#1c2530;--dim:#56616d;--rule:#d5dbe2;--first:#0072b2;--retry:#b84e00;--served:#555f6b;\
--bad:#c0143c;--heat:#b84e00}\
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6eaef;--dim:#a3aeba;--rule:#343c46;--first:#56b4e9;\
--retry:#ff9e4a;--served:#aab4bf;--bad:#ff6b81;--heat:#ff9e4a}}\
svg{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\
svg text{fill:var(--fg)}svg .dim{fill:var(--dim)}svg .small{font-size:12px}svg .name{font-weight:600;font-size:14px}\
svg .end{text-anchor:end}svg .mid{text-anchor:middle}svg .bg{fill:var(--bg)}svg .on{fill:var(--bg)}\
svg .rule{stroke:var(--rule);stroke-width:1}svg .steady{stroke:var(--dim);stroke-width:1.2;stroke-dasharray:5 4}\
svg .first{fill:var(--first);fill-opacity:.45}svg .retry{fill:var(--retry);fill-opacity:.85}\
svg .fault{fill:var(--bad);fill-opacity:.14}svg .capacity{stroke:var(--bad);stroke-width:1.4;stroke-dasharray:9 4}\
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}svg .halo{fill:none;stroke:var(--bg);stroke-width:4.5;stroke-opacity:.8}\
svg .served{stroke:var(--served);stroke-dasharray:6 3}svg .good{stroke:var(--fg)}\
svg .heat{fill:var(--heat)}svg .cell{fill:none;stroke:var(--rule)}svg .hover{fill:transparent}svg .hover:hover{fill:var(--dim);fill-opacity:.18}\
svg .c0{stroke:var(--retry)}svg .c1{stroke:var(--first);stroke-dasharray:9 3}svg .c2{stroke:var(--served);stroke-dasharray:3 3}\
svg .c3{stroke:var(--bad);stroke-dasharray:12 3 3 3}svg .c4{stroke:var(--fg)}svg .c5{stroke:var(--retry);stroke-dasharray:2 4}\
svg .c6{stroke:var(--first)}svg .c7{stroke:var(--served);stroke-dasharray:14 4}";

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

    /// A place that shows a text while the pointer is over it.
    pub(super) fn hover(&mut self, [x, y, width, height]: [f64; 4], text: &str) {
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"hover\"><title>{}</title></rect>",
            short(x),
            short(y),
            short(width),
            short(height),
            escape(text)
        ));
    }

    /// A text from bottom to top, around this point.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let (x, y) = (short(x), short(y));
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escape(text)
        ));
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
