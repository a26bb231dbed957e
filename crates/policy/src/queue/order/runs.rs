//! Whether it pays to go on with a table that a worker's private cache holds, as measured.
//!
//! A task *follows* if its worker ran the same table before it. Some tasks always do and some never, whether runs are made or
//! not, so both kinds are measured as they come: their times, in mean service times of their tables. Where followers are
//! as slow as others (tables that a private cache holds all of, or hardly any of), tasks are served as they came: a run would
//! make others wait for nothing.

/// What a task out of many counts in the means: one in so many. So they follow a new mix of tables within some thousand
/// tasks, and one odd task among 500 does not show.
const FOLLOW: f32 = 2048.0;

/// Tasks of each kind before anything is believed.
const ENOUGH: f32 = 64.0;

/// Tasks between two looks at the means.
const LOOK: u32 = 64;

/// A task counts as at most so many service times: the system may have run something else on its core.
const OUTLIER: f32 = 4.0;

/// Runs are not made for less: of 50 tasks one more is answered in the same time.
const LEAST: f32 = 0.03;

/// How much longer others than followers take.
pub(super) struct Worth {
    follows: Mean,
    others: Mean,
    until_look: u32,
    gain: Option<f32>,
}

/// A mean in which what is long ago counts less.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f32,
    weight: f32,
}

impl Mean {
    fn add(&mut self, value: f32) {
        let keep = 1.0 - 1.0 / FOLLOW;
        self.sum = self.sum * keep + value;
        self.weight = self.weight * keep + 1.0;
    }

    fn get(&self) -> Option<f32> {
        (self.weight >= ENOUGH).then(|| self.sum / self.weight)
    }
}

impl Worth {
    pub(super) fn new() -> Self {
        Self {
            follows: Mean::default(),
            others: Mean::default(),
            until_look: LOOK,
            gain: None,
        }
    }

    /// A query took `spent`, where one of its table takes `usual`.
    pub(super) fn note(&mut self, follows: bool, spent: u64, usual: u64) {
        let times = (spent as f32 / usual.max(1) as f32).min(OUTLIER);
        match follows {
            true => self.follows.add(times),
            false => self.others.add(times),
        }
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = LOOK;
            self.look();
        }
    }

    fn look(&mut self) {
        self.gain = match (self.follows.get(), self.others.get()) {
            (Some(follows), Some(others)) if follows > 0.0 => Some(others / follows - 1.0),
            _ => None,
        };
    }

    /// How far a task may go out of turn for a run, as a part of the oldest one's wait, where `most` is allowed.
    pub(super) fn reorder(&self, most: f64) -> f64 {
        match self.gain {
            Some(gain) if gain < LEAST => 0.0,
            _ => most,
        }
    }
}
