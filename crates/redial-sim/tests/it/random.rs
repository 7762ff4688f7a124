use rand_distr::{Distribution as _, Exp1, StandardNormal};
use redial_sim::Stream;

#[test]
fn a_seed_determines_a_stream() {
    let mut one = Stream::new(7);
    let mut again = Stream::new(7);
    assert!((0..100).all(|_| one.bits() == again.bits()));
    let (mut first, mut second) = (Stream::new(7).of(1), Stream::new(7).of(2));
    assert!((0..100).all(|_| first.bits() != second.bits()));
}

#[test]
fn distributions_have_their_moments() {
    let mut stream = Stream::new(1);
    let mean = |mut draw: Box<dyn FnMut() -> f64>| (0..100_000).map(|_| draw()).sum::<f64>() / 1e5;
    let mut other = Stream::new(2);
    let exponential = mean(Box::new(move || Exp1.sample(&mut stream)));
    assert!((exponential - 1.0).abs() < 0.015, "{exponential}");
    let squares = mean(Box::new(move || {
        let x: f64 = StandardNormal.sample(&mut other);
        x * x
    }));
    assert!((squares - 1.0).abs() < 0.025, "{squares}");
}
