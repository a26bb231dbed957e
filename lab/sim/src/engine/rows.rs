//! What became of one kind of query of one table.

use hdrhistogram::Histogram;

/// What became of one kind of query of one table.
pub(super) struct Row {
    pub(super) done: u64,
    /// Expired while they waited.
    pub(super) waiting: u64,
    pub(super) passed_over: u64,
    /// Expired while they ran.
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) at_home: u64,
    pub(super) away: u64,
    /// Time of workers.
    pub(super) busy: u64,
    pub(super) waits: Histogram<u64>,
    pub(super) latencies: Histogram<u64>,
    /// Answered and expired in each second of the run, from its beginning.
    pub(super) seconds: Vec<[u64; 2]>,
}

impl Row {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(2).expect("two digits are within bounds");
        Self {
            done: 0,
            waiting: 0,
            passed_over: 0,
            late: 0,
            refused: 0,
            at_home: 0,
            away: 0,
            busy: 0,
            waits: histogram(),
            latencies: histogram(),
            seconds: Vec::new(),
        }
    }

    /// Counts from now on; the seconds go on from the beginning of the run.
    pub(super) fn begin(&mut self) {
        let seconds = std::mem::take(&mut self.seconds);
        *self = Self {
            seconds,
            ..Self::new()
        };
    }

    /// Counts one that began after so long.
    pub(super) fn waited(&mut self, nanos: u64) {
        grow_and_record(&mut self.waits, nanos);
    }

    /// Counts one that was answered in time, so long after it came, in that second of the run.
    pub(super) fn answered(&mut self, nanos: u64, second: usize) {
        self.done += 1;
        self.second(second)[0] += 1;
        grow_and_record(&mut self.latencies, nanos);
    }

    fn second(&mut self, second: usize) -> &mut [u64; 2] {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, [0; 2]);
        }
        &mut self.seconds[second]
    }

    pub(super) fn expired_in(&mut self, second: usize) {
        self.second(second)[1] += 1;
    }

    /// Adds another table's.
    pub(super) fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.waiting += other.waiting;
        self.passed_over += other.passed_over;
        self.late += other.late;
        self.refused += other.refused;
        self.at_home += other.at_home;
        self.away += other.away;
        self.busy += other.busy;
        for (all, other) in [
            (&mut self.waits, &other.waits),
            (&mut self.latencies, &other.latencies),
        ] {
            all.add(other).expect("it grows as need be");
        }
        for (second, [done, expired]) in other.seconds.iter().enumerate() {
            let all = self.second(second);
            all[0] += done;
            all[1] += expired;
        }
    }
}

/// Of thousands of rows most have short times, so each histogram is as long as it has to be.
fn grow_and_record(histogram: &mut Histogram<u64>, nanos: u64) {
    let recorded = histogram.record(nanos.max(1));
    recorded.expect("it grows as need be");
}

/// The second of the run in which a moment lies.
pub(super) fn second_of(at: u64) -> usize {
    (at / 1_000_000_000) as usize
}
