//! Which query goes to which table, and when: endless streams of arrivals, drawn from a seed.
//!
//! Three independent questions make an arrival, each drawn from a random stream of its own, so that
//! changing one answer leaves the others alone: *when* ([`Arrivals`]), *which table* (a [`Group`] by its
//! share, then a table of it by a Zipf law) and *which query* of that table (another Zipf law). Two runs
//! at different rates thus send the same queries in the same order.
//!
//! Popularity is a ranking. In a group the first table starts out the hottest; a [`Flip`] changes which
//! table holds which rank from some time on, and the law over ranks stays as it is. Within a table, query 0
//! is always the most popular one.

mod arrivals;
mod error;
mod popularity;

use std::ops::Range;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

pub use arrivals::Arrivals;
pub use error::TrafficError;
pub use popularity::{Change, Flip};

use arrivals::Clock;
use popularity::{Ranking, Zipf};

/// One query to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Intended send time, counted from the start of the run.
    pub at: Duration,
    /// The table that is asked, as numbered in its [`Group`].
    pub table: usize,
    /// The query's number within the table, 0 being the most popular.
    pub query: usize,
}

/// Tables of one kind, which share a part of all traffic and have a skew of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    tables: Range<usize>,
    queries: usize,
    share: f64,
    table_skew: f64,
    query_skew: f64,
}

impl Group {
    /// Tables numbered `tables`, each of which is asked `queries` different queries; share 1, no skew.
    #[must_use]
    pub fn new(tables: Range<usize>, queries: usize) -> Self {
        Self {
            tables,
            queries,
            share: 1.0,
            table_skew: 0.0,
            query_skew: 0.0,
        }
    }

    /// The group's weight among all groups: with 4 and 1, the first gets 80 % of all arrivals.
    #[must_use]
    pub fn share(mut self, weight: f64) -> Self {
        self.share = weight;
        self
    }

    /// Zipf exponent over the group's tables: the table of rank `r`, from 1, is asked in proportion to
    /// `r^-exponent`. 0 is uniform; about 1 is what most services see.
    #[must_use]
    pub fn table_skew(mut self, exponent: f64) -> Self {
        self.table_skew = exponent;
        self
    }

    /// Zipf exponent over a table's queries.
    #[must_use]
    pub fn query_skew(mut self, exponent: f64) -> Self {
        self.query_skew = exponent;
        self
    }

    /// The same where this part of the group's arrivals, 0 to 1, goes to its first table beside that table's share by
    /// the law.
    #[must_use]
    pub fn hot(self, part: f64) -> Vec<Self> {
        let of = |tables: Range<usize>, part: f64| Self {
            tables,
            share: self.share * part,
            ..self.clone()
        };
        let first = self.tables.start;
        let both = [
            of(first..first + 1, part),
            of(self.tables.clone(), 1.0 - part),
        ];
        both.into_iter().filter(|group| group.share > 0.0).collect()
    }

    fn check(&self) -> Result<(), TrafficError> {
        if self.tables.is_empty() || self.queries == 0 {
            let Group {
                tables, queries, ..
            } = self.clone();
            return Err(TrafficError::EmptyGroup { tables, queries });
        }
        if !(self.share.is_finite() && self.share > 0.0) {
            return Err(TrafficError::BadShare { share: self.share });
        }
        for exponent in [self.table_skew, self.query_skew] {
            if !(exponent.is_finite() && exponent >= 0.0) {
                return Err(TrafficError::BadSkew { exponent });
            }
        }
        Ok(())
    }
}

/// A recipe for arrivals: when, where to, and how that changes.
///
/// ```
/// use chiplet_workload::traffic::{Arrivals, Change, Group, Traffic};
/// use std::time::Duration;
///
/// // Eight HNSW tables with four fifths of the traffic, two IVF tables with the rest; after 10 s the
/// // hottest HNSW table trades places with the coldest, and so on inwards.
/// let traffic = Traffic::new(42, Arrivals::Poisson { rate: 500.0 })
///     .group(Group::new(0..8, 1_000).share(4.0).table_skew(1.1).query_skew(0.9))
///     .group(Group::new(8..10, 1_000).share(1.0))
///     .flip(Duration::from_secs(10), Change::Reverse);
///
/// let sent: Vec<_> = traffic.stream()?.take(1_000).collect();
/// assert!(sent.is_sorted_by_key(|arrival| arrival.at));
/// assert!(sent.iter().filter(|arrival| arrival.table == 0).count() > 250);
/// # Ok::<(), chiplet_workload::traffic::TrafficError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    seed: u64,
    arrivals: Arrivals,
    groups: Vec<Group>,
    flips: Vec<Flip>,
}

impl Traffic {
    /// Traffic without tables yet. Same seed and recipe, same stream.
    #[must_use]
    pub fn new(seed: u64, arrivals: Arrivals) -> Self {
        Self {
            seed,
            arrivals,
            groups: Vec::new(),
            flips: Vec::new(),
        }
    }

    /// Adds tables. A table may be in several groups.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// From `at` on, tables hold other ranks within their group. Changes build on one another in order of
    /// time.
    #[must_use]
    pub fn flip(mut self, at: Duration, change: Change) -> Self {
        self.flips.push(Flip { at, change });
        self.flips.sort_by_key(|flip| flip.at);
        self
    }

    /// The endless stream of arrivals, in order of time. (It ends where a [`Duration`] does.)
    ///
    /// # Errors
    /// [`TrafficError`] if a rate, share or exponent is out of range, or if there is nothing to ask.
    pub fn stream(&self) -> Result<Stream, TrafficError> {
        self.part(0, 1)
    }

    /// Part `part` of `parts` streams that together are this traffic, for as many senders: each has its share of the
    /// rate and draws by itself, bursts and flips come to all at once. Poisson streams add up to a Poisson stream.
    ///
    /// The parts of one number of parts are always the same; another number of parts draws other arrivals.
    ///
    /// ```
    /// use chiplet_workload::traffic::{Arrivals, Group, Traffic};
    /// let traffic = Traffic::new(1, Arrivals::Steady { rate: 1_000.0 }).group(Group::new(0..4, 10));
    /// let mut parts = [traffic.part(0, 2)?, traffic.part(1, 2)?];
    /// let first: Vec<_> = parts.iter_mut().map(|part| part.next().map(|arrival| arrival.at.as_millis())).collect();
    /// assert_eq!(first, [Some(1), Some(2)]);
    /// # Ok::<(), chiplet_workload::traffic::TrafficError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Traffic::stream`].
    ///
    /// # Panics
    /// If `part >= parts`.
    pub fn part(&self, part: u64, parts: u64) -> Result<Stream, TrafficError> {
        assert!(part < parts, "part {part} of {parts}");
        self.check()?;
        let random = |stream| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            rng.set_stream(stream);
            rng
        };
        /// Streams of random numbers for each part; the last two of the first part are everybody's.
        const STREAMS: u64 = 5;
        let own = |which| random(part * STREAMS + which);
        let (flips, phases) = (random(3), random(4));
        let mut total = 0.0;
        let groups = self.groups.iter().map(|group| {
            total += group.share;
            GroupStream {
                shares_until: total,
                tables: group.tables.clone(),
                table_law: Zipf::new(group.tables.len(), group.table_skew),
                query_law: Zipf::new(group.queries, group.query_skew),
                ranking: Ranking::new(group.tables.len()),
            }
        });
        Ok(Stream {
            groups: groups.collect(),
            flips: self.flips.clone().into_iter().collect(),
            clock: Clock::new(self.arrivals, (part, parts), own(0), phases),
            table_rng: own(1),
            query_rng: own(2),
            flip_rng: flips,
        })
    }

    /// The share of all arrivals that each table gets at time `at`, by table number; the sum is 1. What a
    /// placement ought to find out, and a check for those who draw.
    ///
    /// # Errors
    /// As [`Traffic::stream`].
    pub fn table_shares(&self, at: Duration) -> Result<Vec<f64>, TrafficError> {
        let mut stream = self.stream()?;
        stream.flip_until(at);
        let total = stream.groups.last().map_or(0.0, |last| last.shares_until);
        let tables = self
            .groups
            .iter()
            .map(|group| group.tables.end)
            .max()
            .unwrap_or(0);
        let mut shares = vec![0.0; tables];
        for (group, spec) in stream.groups.iter().zip(&self.groups) {
            for (rank, share) in group.table_law.shares().enumerate() {
                shares[group.table(rank)] += share * spec.share / total;
            }
        }
        Ok(shares)
    }

    fn check(&self) -> Result<(), TrafficError> {
        if self.groups.is_empty() {
            return Err(TrafficError::NoGroups);
        }
        self.arrivals.check()?;
        self.groups.iter().try_for_each(Group::check)
    }
}

/// The arrivals of a [`Traffic`], in order of time.
#[derive(Debug)]
pub struct Stream {
    groups: Vec<GroupStream>,
    flips: std::collections::VecDeque<Flip>,
    clock: Clock,
    table_rng: ChaCha8Rng,
    query_rng: ChaCha8Rng,
    flip_rng: ChaCha8Rng,
}

#[derive(Clone, Debug)]
struct GroupStream {
    /// Shares of this group and those before it.
    shares_until: f64,
    tables: Range<usize>,
    table_law: Zipf,
    query_law: Zipf,
    ranking: Ranking,
}

impl GroupStream {
    fn table(&self, rank: usize) -> usize {
        self.tables.start + self.ranking.holder(rank)
    }
}

impl Stream {
    /// Carries out the flips that are due at `at`.
    fn flip_until(&mut self, at: Duration) {
        while self.flips.front().is_some_and(|flip| flip.at <= at)
            && let Some(flip) = self.flips.pop_front()
        {
            for group in &mut self.groups {
                group.ranking.apply(flip.change, &mut self.flip_rng);
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = self.clock.next()?;
        self.flip_until(at);
        let total = self.groups.last()?.shares_until;
        let point = self.table_rng.random::<f64>() * total;
        let group = self
            .groups
            .partition_point(|group| group.shares_until <= point);
        // Rounding may put the product on the very end.
        let group = &self.groups[group.min(self.groups.len() - 1)];
        let table = group.table(group.table_law.draw(&mut self.table_rng));
        let query = group.query_law.draw(&mut self.query_rng);
        Some(Arrival { at, table, query })
    }
}
