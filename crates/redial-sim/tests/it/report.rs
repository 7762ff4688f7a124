//! Reports of known figures.

use redial_sim::measure::{Engine, Outcomes, Run, Series, Summary};
use redial_sim::report::{
    Case, Picture, Rates, Report, SimulationSetup, count, milliseconds, percent, ratio,
};
use redial_sim::{Scenario, Subject};

const TEXT: &str = r#"
title = "A <b>title</b> & more"
teaches = "First.\n\nSecond."
claim = "1.8M retries over 4 s"
duration = "1s"
window = "100ms"
policies = ["standard"]
clients = { arrivals = { constant = { rate = 100 } } }
outage = { start = "200ms", duration = "300ms" }
"#;

const HOSTILE: &str = "</title><script>alert('1')</script>\u{1b}";

fn run(collapsed: bool) -> Run {
    let attempts = vec![10.0, 10.0, 40.0, 30.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0];
    let retries = attempts.iter().map(|attempts| attempts - 10.0).collect();
    let ten = vec![10.0; 10];
    Run {
        calls: 100,
        attempts: 150,
        amplification: 1.5,
        success: 0.9,
        peak_ratio: 4.0,
        served_peak_ratio: 2.0,
        recover_ms: (!collapsed).then_some(100.0),
        goodput_lost: 0.1,
        p50_ms: 5.0,
        p99_ms: 1500.0,
        duplicates: 0,
        collapsed,
        completion_ms: 1000.0,
        delay_sd_ms: 3.0,
        waiting_max: 20,
        healthy_lost: None,
        own_success: None,
        retries: 50,
        smear_ms: 200.0,
        outcomes: Outcomes::default(),
        series: Series {
            window_ms: 100.0,
            calls: ten.clone(),
            attempts,
            retries,
            served: ten.clone(),
            succeeded: ten,
            failed: vec![0.0; 10],
        },
        events: 7,
    }
}

fn with_report<T>(runs: &[Run], wanted: u32, name: &str, look: impl Fn(&Report<'_>) -> T) -> T {
    let scenario = Scenario::read(TEXT, &[]).unwrap();
    let question = SimulationSetup {
        name: "mine.toml",
        text: TEXT,
        sets: &[],
        seed: 7,
        runs: wanted,
        engine: Some(Engine::Exact),
        command: "redial sim mine.toml --seed 7",
    };
    let subject = Subject { name: name.to_owned(), ..Subject::no_retry() };
    let cases = vec![Case { subject, summary: Summary::of(runs) }];
    look(&Report { question, scenario: &scenario, cases, series: false, wall_ms: 1.0 })
}

#[test]
fn numbers_have_three_digits_and_a_unit() {
    for (number, text) in [
        (0.0, "0"),
        (7.0, "7"),
        (9_999.0, "9999"),
        (12_345.0, "12.3k"),
        (1.8e6, "1.8M"),
        (2.5, "2.50"),
    ] {
        assert_eq!(count(number), text);
    }
    for (ms, text) in [
        (0.0, "0 ms"),
        (0.25, "250 µs"),
        (83.14, "83.1 ms"),
        (4200.0, "4.2 s"),
        (600e3, "10 min"),
        (7.2e6, "2 h"),
    ] {
        assert_eq!(milliseconds(ms), text);
    }
    for (share, text) in
        [(0.0, "0 %"), (1.0, "100 %"), (0.831, "83.1 %"), (0.9968, "99.68 %"), (0.00001, "0.001 %")]
    {
        assert_eq!(percent(share), text);
    }
    assert_eq!((ratio(8.724), ratio(25_000.0)), ("8.72".to_owned(), "25k".to_owned()));
}

#[test]
fn success_is_absent_without_calls() {
    let none = Run { calls: 0, ..run(false) };
    let cell = |runs: &[Run]| {
        with_report(runs, 1, "naive", |report| {
            let table = report.table();
            let at = table.columns.iter().position(|column| column.title() == "success").unwrap();
            table.rows[0][at].clone()
        })
    };
    assert_eq!((cell(&[none]).as_str(), cell(&[run(false)]).as_str()), ("–", "90.0 %"));
}

#[test]
fn the_table_shows_columns_that_apply() {
    let titles = |runs: &[Run]| {
        with_report(runs, runs.len() as u32, "naive", |report| {
            report.table().columns.iter().map(|column| column.title()).collect::<Vec<_>>()
        })
    };
    let one = titles(&[run(false)]);
    assert!(
        !one.iter().any(|title| title.starts_with("collapse")),
        "a single run has no share: {one:?}"
    );
    let many = titles(&[run(false), run(true)]);
    let all = "policy|calls|attempts|amplification|success|peak ratio|time to recover|goodput lost|p50|p99|collapse (95\u{a0}%)";
    assert_eq!(many.join("|"), all);
    let twice = titles(&[Run { duplicates: 3, ..run(false) }]);
    assert!(twice.contains(&"duplicates".to_owned()));
    let apart = titles(&[Run { healthy_lost: Some(0.1), ..run(false) }]);
    assert!(apart.contains(&"healthy lost".to_owned()));
    let mixed = titles(&[Run { own_success: Some(0.5), ..run(false) }]);
    assert!(mixed.contains(&"own success".to_owned()));
}

#[test]
fn means_show_visible_standard_errors() {
    let runs = [run(false), Run { peak_ratio: 5.0, recover_ms: None, ..run(true) }];
    let row = with_report(&runs, 2, "naive", |report| report.table().rows[0].clone());
    assert_eq!(row[5], "4.50 ±0.50");
    assert_eq!(row[3], "1.50", "they are all the same");
    assert_eq!(row[6], "100 ms or never", "one of them did not recover");
    assert_eq!(row[10], "50 % (9–91)");
    let never = with_report(&[run(true)], 1, "naive", |report| report.table().rows[0][6].clone());
    assert_eq!(never, "never");
}

#[test]
fn a_picture_keeps_the_busiest_window() {
    let scenario = Scenario::read(TEXT, &[]).unwrap();
    let case = Case { subject: Subject::no_retry(), summary: Summary::of(&[run(false)]) };
    let whole = Picture::of(&scenario, std::slice::from_ref(&case), 50);
    assert_eq!((whole.rows[0].len(), whole.most, whole.steady), (10, 400.0, Some(100.0)));
    assert_eq!((whole.rows[0][2].firsts, whole.rows[0][2].retries), (100.0, 300.0));
    assert_eq!(whole.fault_ms, Some((200.0, 500.0)));
    let small = Picture::of(&scenario, &[case], 3);
    assert_eq!((small.rows[0].len(), small.point_ms, small.length_ms()), (3, 400.0, 1200.0));
    assert_eq!(small.rows[0][0].attempts(), 400.0);
}

#[test]
fn synchronised_first_attempts_are_left_out_of_the_picture() {
    let text = TEXT.replace("constant = { rate = 100 }", "synchronised = { callers = 100 }");
    let scenario = Scenario::read(&text, &[]).unwrap();
    let case = Case { subject: Subject::no_retry(), summary: Summary::of(&[run(false)]) };
    let picture = Picture::of(&scenario, &[case], 50);
    assert_eq!(picture.steady, None);
    assert_eq!((picture.rows[0][2].firsts, picture.rows[0][2].retries), (0.0, 300.0));
}

#[test]
fn figures_and_pages_escape_names() {
    for text in [
        with_report(&[run(false)], 1, HOSTILE, |report| report.svg()),
        with_report(&[run(false)], 1, HOSTILE, |report| report.html()),
    ] {
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains("<b>") && !text.contains('\u{1b}'));
        assert!(text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\u{fffd}"));
        assert!(text.contains("A &lt;b&gt;title&lt;/b&gt; &amp; more"));
        assert!(text.contains("prefers-color-scheme:dark"));
    }
}

#[test]
fn a_page_is_complete_and_self_contained() {
    let page = with_report(&[run(false), run(true)], 3, "naive", |report| report.html());
    for part in [
        "<p>First.</p>",
        "<p>Second.</p>",
        "Claimed: 1.8M retries over 4 s",
        "naive: 200 served a second at the peak, 50 retries over 200 ms, at most 30 in 100 ms (300 a second)",
        "50 % (9–91)",
        "outage = { start = &quot;200ms&quot;",
        "attempts = 1\n",
        "redial sim mine.toml --seed 7",
        "seed 7, 3 runs",
        "It was stopped before all runs were made",
        "<svg ",
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !elsewhere.contains("http")
            && !elsewhere.contains("<script")
            && !elsewhere.contains("url(")
    );
}

#[test]
fn a_figure_is_well_formed_without_any_run() {
    let empty = with_report(&[], 5, "naive", |report| report.svg());
    assert!(empty.starts_with("<svg ") && empty.ends_with("</svg>\n"));
    let full = with_report(&[run(false)], 1, "naive", |report| report.svg());
    assert!(!full.contains("NaN") && !full.contains("inf"), "{full}");
    for class in ["first", "retry", "curve served", "curve good", "steady", "fault"] {
        assert!(full.contains(&format!("class=\"{class}\"")), "{class}");
    }
}

#[test]
fn measured_rates_use_a_logarithmic_scale_from_one() {
    let rates = Rates {
        title: HOSTILE,
        unit: "a second",
        curves: &[("few", &[1.0, 10.0, 0.0]), (HOSTILE, &[100.0, 1000.0])],
        spans: &[(1.0, 2.0, "an <outage>")],
    };
    let svg = rates.svg();
    assert!(!svg.contains("<script>") && svg.contains("an &lt;outage&gt;"));
    // Three decades from 364 up to 84, three seconds from 70 to 940.
    assert!(svg.contains(r#"<path d="M70 364H360V270.7H650V364H940" class="curve c0"/>"#), "{svg}");
    assert!(svg.contains(r#"<path d="M70 177.3H360V84H650" class="curve c1"/>"#), "{svg}");
    assert!(svg.contains(r#"<rect x="360" y="84" width="290" height="280" class="fault"/>"#));
    for tick in ["1", "10", "100", "1000"] {
        assert!(svg.contains(&format!(r#"class="small dim end">{tick}<"#)), "{tick}: {svg}");
    }
    let empty = Rates { curves: &[("none", &[])], ..rates };
    assert!(empty.svg().ends_with("</svg>\n"));
}

#[test]
fn a_page_has_figures_for_wide_and_narrow_screens_with_values_under_the_pointer() {
    let page = with_report(&[run(false)], 1, "naive", |report| report.html());
    let figures: Vec<&str> = page.split("<svg ").skip(1).collect();
    assert_eq!(figures.len(), 2);
    for (figure, width) in figures.iter().zip(["960", "368"]) {
        assert!(figure.contains(&format!("width=\"{width}\"")), "{figure}");
        assert!(figure.contains(">requests/s</text>") && figure.contains(">time</text>"));
        assert!(figure.contains("class=\"hover\"><title>0 ms: "), "{figure}");
        assert!(figure.contains(" of them retries; "));
    }
    assert!(page.contains("@media(max-width:720px)"));
}

/// The contrast of two colours, as WCAG defines it.
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| {
        let part = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_colour_can_be_seen_on_light_and_dark() {
    let figure = with_report(&[run(false)], 1, "naive", |report| report.svg());
    let themes: Vec<&str> = figure.split(":root{").skip(1).collect();
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let colour = |name: &str| &theme.split(&format!("--{name}:")).nth(1).unwrap()[..7];
        for name in ["fg", "dim", "first", "retry", "served", "bad"] {
            let contrast = contrast(colour(name), colour("bg"));
            assert!(contrast >= 4.9, "{name}: {contrast}");
        }
    }
}
