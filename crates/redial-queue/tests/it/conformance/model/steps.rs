use proptest::prelude::*;
use redial_queue::durable::WhenWaiting;

/// A step on the store and on the model. A place selects a job or claim, modulo their number.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(Vec<Add>),
    Claim { most: usize, lasts: bool },
    Settle { place: usize, end: End },
    Beat { place: usize, lasts: bool },
    Redrive { place: Option<usize>, later: bool },
    Remove { place: usize },
    Edit { place: usize },
    Pause(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Add {
    pub(super) key: Option<u8>,
    pub(super) when_waiting: WhenWaiting,
    /// 0, 4 or 7: so far apart that no job catches up with the next level, even on a slow machine.
    pub(super) level: u8,
    pub(super) later: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Done,
    Retry { later: bool },
    Postpone { later: bool },
    Dead,
}

fn add() -> impl Strategy<Value = Add> {
    let when_waiting = prop_oneof![
        3 => Just(WhenWaiting::Append),
        1 => Just(WhenWaiting::Replace),
        1 => Just(WhenWaiting::Keep),
        1 => Just(WhenWaiting::Refuse),
    ];
    let level = prop_oneof![Just(0), Just(4), Just(7)];
    let later = prop::bool::weighted(0.15);
    (prop::option::weighted(0.7, 0_u8..3), when_waiting, level, later)
        .prop_map(|(key, when_waiting, level, later)| Add { key, when_waiting, level, later })
}

fn end() -> impl Strategy<Value = End> {
    let later = || prop::bool::weighted(0.3);
    prop_oneof![
        3 => Just(End::Done),
        2 => later().prop_map(|later| End::Retry { later }),
        1 => later().prop_map(|later| End::Postpone { later }),
        2 => Just(End::Dead),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let mostly = || prop::bool::weighted(0.7);
    let place = || 0_usize..100;
    prop_oneof![
        6 => prop::collection::vec(add(), 1..4).prop_map(Step::Enqueue),
        6 => (1_usize..4, mostly()).prop_map(|(most, lasts)| Step::Claim { most, lasts }),
        8 => (place(), end()).prop_map(|(place, end)| Step::Settle { place, end }),
        2 => (place(), mostly()).prop_map(|(place, lasts)| Step::Beat { place, lasts }),
        2 => (prop::option::of(place()), prop::bool::weighted(0.2))
            .prop_map(|(place, later)| Step::Redrive { place, later }),
        1 => place().prop_map(|place| Step::Remove { place }),
        1 => place().prop_map(|place| Step::Edit { place }),
        1 => mostly().prop_map(|running| Step::Pause(!running)),
    ]
}

impl End {
    pub(super) fn is_later(self) -> bool {
        match self {
            Self::Retry { later } | Self::Postpone { later } => later,
            Self::Done | Self::Dead => false,
        }
    }
}
