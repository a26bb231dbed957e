//! A queue in simulated time: tables that send tasks, and workers that run them.

use std::time::Duration;

use crate::queue::{Discipline, Queue, Run, Terms};
use crate::{TableId, Time};
use chiplet_table::Class;

pub(super) const DISCIPLINE: Discipline = Discipline {
    run_length: 16,
    reorder: 0.3,
    limit: 4_000,
    table_limit: 400,
    bulk_weight: Discipline::BULK_WEIGHT,
};

pub(super) const MILLI: Duration = Duration::from_millis(1);

/// Sends tasks of one table at an even pace.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) terms: Terms,
    pub(super) service: Duration,
    pub(super) every: Duration,
    pub(super) until: Duration,
    pub(super) next: Duration,
    /// Sends another task for each that ends, and so many at first.
    outstanding: usize,
    /// So many of ten tasks are dead when they are taken.
    dead: usize,
}

/// A source of tasks that take 2 ms and ask for `load` of the time of one worker.
pub(super) fn source(weight: f32, load: f64) -> Source {
    let service = 2 * MILLI;
    Source {
        terms: Terms {
            weight,
            ..Terms::default()
        },
        service,
        every: service.div_f64(load),
        until: Duration::MAX,
        next: Duration::ZERO,
        outstanding: 0,
        dead: 0,
    }
}

impl Source {
    pub(super) fn taking(mut self, service: Duration) -> Self {
        self.every = self.every.mul_f64(service.div_duration_f64(self.service));
        self.service = service;
        self
    }

    /// Keeps so many tasks waiting or running at all times.
    pub(super) fn keeping(mut self, outstanding: usize) -> Self {
        self.until = Duration::ZERO;
        self.outstanding = outstanding;
        self
    }

    /// Of ten tasks so many are dead when they are taken.
    pub(super) fn dying(mut self, dead: usize) -> Self {
        self.dead = dead;
        self
    }

    pub(super) fn bulk(mut self) -> Self {
        self.terms.class = Class::Bulk;
        self
    }

    pub(super) fn from(mut self, start: Duration) -> Self {
        self.next = start;
        self
    }

    pub(super) fn until(mut self, end: Duration) -> Self {
        self.until = end;
        self
    }
}

/// What became of a source's tasks since the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Workers' time.
    pub(super) time: Duration,
    pub(super) waits: Vec<Duration>,
}

impl Served {
    pub(super) fn longest(&self) -> Duration {
        self.waits.iter().copied().max().unwrap_or_default()
    }
}

pub(super) struct Simulation {
    pub(super) queue: Queue<(usize, Duration)>,
    pub(super) sources: Vec<Source>,
    pub(super) served: Vec<Served>,
    /// Tasks that were taken, by source.
    pub(super) taken: Vec<usize>,
    /// Where each is, and when and of which source the task that it runs ends.
    workers: Vec<(Run, Option<(Duration, usize)>)>,
    now: Duration,
}

impl Simulation {
    pub(super) fn new(workers: usize, sources: &[Source]) -> Self {
        Self::with(DISCIPLINE, workers, sources)
    }

    pub(super) fn with(discipline: Discipline, workers: usize, sources: &[Source]) -> Self {
        let mut queue = Queue::new(discipline, workers);
        for (slot, source) in sources.iter().enumerate() {
            for _ in 0..source.outstanding {
                let task = (slot, Duration::ZERO);
                queue
                    .push(Self::table(slot), &source.terms, task, Time::ZERO)
                    .unwrap();
            }
        }
        Self {
            queue,
            sources: sources.to_vec(),
            served: vec![Served::default(); sources.len()],
            taken: vec![0; sources.len()],
            workers: vec![(Run::default(), None); workers],
            now: Duration::ZERO,
        }
    }

    pub(super) fn table(slot: usize) -> TableId {
        TableId {
            slot: slot as u32,
            generation: 0,
        }
    }

    /// Goes on until `end` and returns what was served by then, by source.
    pub(super) fn run_until(&mut self, end: Duration) -> Vec<Served> {
        while self.now < end {
            for (slot, source) in self.sources.iter_mut().enumerate() {
                while source.next <= self.now && source.next < source.until {
                    let (at, task) = (Time::ZERO + source.next, (slot, source.next));
                    // A full queue refuses, as it would in earnest.
                    let table = Self::table(slot);
                    let _ = self.queue.push(table, &source.terms, task, at);
                    source.next += source.every;
                }
            }
            let now = Time::ZERO + self.now;
            for (run, ends) in &mut self.workers {
                if ends.is_some_and(|(ends, _)| ends > self.now) {
                    continue;
                }
                if let Some((_, slot)) = ends.take() {
                    run.end(now);
                    let source = &self.sources[slot];
                    if source.outstanding > 0 {
                        let (table, task) = (Self::table(slot), (slot, self.now));
                        self.queue.push(table, &source.terms, task, now).unwrap();
                    }
                }
                while let Some((slot, at)) = self.queue.take(false, run, now) {
                    self.taken[slot] += 1;
                    if self.taken[slot] % 10 < self.sources[slot].dead {
                        continue;
                    }
                    let service = self.sources[slot].service;
                    *ends = Some((self.now + service, slot));
                    self.served[slot].time += service;
                    self.served[slot].waits.push(self.now - at);
                    break;
                }
            }
            let sources = self.sources.iter();
            let sources = sources.filter(|source| source.next < source.until);
            let arrivals = sources.map(|source| source.next);
            let ends = self.workers.iter().filter_map(|(_, ends)| Some((*ends)?.0));
            self.now = arrivals.chain(ends).min().map_or(end, |next| next.min(end));
        }
        let fresh = vec![Served::default(); self.sources.len()];
        std::mem::replace(&mut self.served, fresh)
    }
}

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn ratio(served: &[Served], of: usize, to: usize) -> f64 {
    served[of].time.div_duration_f64(served[to].time)
}
