//! Charts, dot by dot.

use redial_cli::Curve;
use redial_cli::chart::{ChartSeries, DOTS_ACROSS, Mark, draw, scale};
use redial_core::{Span, Time};

const WIDTH: usize = 34;
const SAMPLES: usize = WIDTH * DOTS_ACROSS;

/// The first characters of every line; the rest must be empty.
fn lines(series: &[ChartSeries<'_>], most: f64, rows: usize, across: usize) -> Vec<String> {
    let drawn = draw(series, most, rows, WIDTH);
    assert_eq!(drawn.len(), rows);
    for row in &drawn {
        assert!(row[across..].iter().all(|cell| cell.character() == '\u{2800}'));
    }
    drawn.iter().map(|row| row[..across].iter().map(|cell| cell.character()).collect()).collect()
}

fn area(values: &[f64]) -> ChartSeries<'_> {
    ChartSeries { values, mark: Mark::Area }
}

fn line(values: &[f64]) -> ChartSeries<'_> {
    ChartSeries { values, mark: Mark::Line }
}

#[test]
fn an_area_is_filled_down_to_zero() {
    let rising: Vec<f64> = (0..=8).map(f64::from).collect();
    assert_eq!(lines(&[area(&rising)], 8.0, 2, 5), ["⠀⠀⢀⣴⡇", "⢀⣴⣿⣿⡇"]);
    assert_eq!(lines(&[area(&[99.0, -1.0])], 8.0, 1, 1), ["⡇"], "within the chart");
}

#[test]
fn a_line_is_a_dot_per_value_and_a_gap_over_an_area() {
    assert_eq!(lines(&[line(&[1.0, 2.0, 3.0, 4.0])], 4.0, 1, 2), ["⡠⠊"]);
    assert_eq!(lines(&[area(&[4.0, 4.0]), line(&[2.0, 1.0])], 4.0, 1, 1), ["⡻"]);
    let twice = [area(&[4.0, 4.0]), line(&[2.0, 1.0]), line(&[2.0, 1.0])];
    assert_eq!(lines(&twice, 4.0, 1, 1), ["⡻"], "two lines do not cancel each other");
}

#[test]
fn a_limit_is_dotted_and_a_line_over_it_wins_the_colour() {
    let limit = ChartSeries { values: &[4.0; 8], mark: Mark::Dotted };
    assert_eq!(lines(&[limit], 4.0, 1, 4), ["⠁⠀⠁⠀"]);
    let drawn = draw(&[limit, line(&[4.0, 1.0])], 4.0, 1, WIDTH);
    assert_eq!([0, 1, 2].map(|x| drawn[0][x].mark), [Some(Mark::Line), None, Some(Mark::Dotted)]);
}

#[test]
fn values_beyond_the_width_are_left_out() {
    let long = vec![1.0; SAMPLES + 10];
    assert_eq!(lines(&[area(&long)], 1.0, 1, WIDTH), ["⣿".repeat(WIDTH)]);
}

#[test]
fn scales_end_on_round_numbers() {
    let ends = [0.3, 1.0, 1.1, 2.1, 2.6, 500.0, 501.0, 1_506.0].map(scale);
    assert_eq!(ends, [1.0, 1.0, 2.0, 2.5, 5.0, 500.0, 1_000.0, 2_000.0]);
}

#[test]
fn a_curve_is_counted_over_any_stretch() {
    let curve = Curve::new(Span::from_millis(100), vec![10.0, 20.0, 40.0]);
    let between = |from, to| {
        let [from, to] = [from, to].map(|ms| Time::at(Span::from_millis(ms)));
        curve.between(from, to)
    };
    assert_eq!(between(0, 300), 70.0);
    assert_eq!(between(50, 150), 15.0);
    assert_eq!(between(210, 220), 4.0);
    assert_eq!(between(250, 900), 20.0, "nothing after the end");
    assert_eq!(between(900, 950), 0.0);
    assert_eq!(curve.rates(Span::from_millis(50), 3), [100.0, 100.0, 200.0]);
    assert_eq!(curve.rates(Span::from_millis(200), 3), [150.0, 200.0, 0.0]);
}
