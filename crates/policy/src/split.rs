//! How an IVF query is cut into scan units: runs of inverted lists, taken one by one by whoever takes part.
//!
//! Nothing is cut in advance. The query's lists stay in one place, and each hand that is free takes the next unit from
//! it until nothing is left. How large that unit is follows from what is left by then, and from how many hands there
//! are by then: fan-out hurts when every core already has work, so a busy domain gets few large units, and an idle one
//! many small ones. Near the end units get smaller, so that all hands end together.

settings! {
    /// When and how finely [`next_unit`] cuts.
    pub struct SplitConfig {
        /// Bytes that a unit should scan at least. Default 256 KiB: about 10 us of scanning for one core at
        /// 25 GB/s, ten times the ~1 us that published pools need to hand a task to another core (rayon
        /// 0.94 us, affinitypool 1.07 us), so hand-over stays under a tenth of the work. 0 counts as 1.
        /// With `None` no query is cut.
        pub min_unit_bytes: Option<u64> = Some(256 << 10),
        /// Bytes that a unit should scan at most, if anybody else could take a part, however busy all of them are now:
        /// a sibling that becomes free a little later still finds something. Default 4 MiB: some 160 us for one core,
        /// so that the 5 us that each more unit of a Faiss index costs stay under a few per cent. Less than
        /// `min_unit_bytes` counts as that.
        pub max_unit_bytes: u64 = 4 << 20,
        /// Units for each core that takes part, of what is left when one is taken. Default 2: with a single unit a
        /// core, one slow core holds up the whole query; with two, the others take half of its part. A third was
        /// measured too: what it gains in balance on two cores, it loses to the 5 us that each more unit of a Faiss
        /// index costs. 0 counts as 1.
        #[doc(hidden)]
        pub units_per_core: u32 = 2,
        /// A table of more than so many times its home's cache is a stream: workers that other domains can spare take
        /// scan units of its queries, too. No cache keeps it, so it is read from memory wherever it is scanned, and
        /// more domains have more links to memory. Default 2. With `None` units never leave their domain.
        pub stream_caches: Option<u32> = Some(2),
    }
}

impl SplitConfig {
    /// Whether `left` bytes can be more than one unit, so that it matters how many hands there are.
    #[doc(hidden)]
    pub fn is_divisible(&self, left: u128) -> bool {
        left >= 2 * self.least()
    }

    /// Whether a table of `bytes` is a stream for a home with a cache of `cache_bytes`.
    #[doc(hidden)]
    pub fn is_stream(&self, bytes: u64, cache_bytes: u64) -> bool {
        let least = |caches| cache_bytes.saturating_mul(u64::from(caches));
        self.stream_caches
            .is_some_and(|caches| bytes > least(caches))
    }

    /// How many of the next lists of a query are its next scan unit, of a query in which `team` workers may take part:
    /// [`next_unit`], and all of them where there is one worker. `costs` are those of the lists that nobody has taken
    /// (bytes), and `left` is their sum.
    #[doc(hidden)]
    pub fn next_unit(
        &self,
        costs: impl ExactSizeIterator<Item = u64>,
        left: u128,
        hands: &Hands,
        team: usize,
    ) -> usize {
        match team {
            0 | 1 => costs.len(),
            _ => next_unit(costs, left, hands.cores(), self),
        }
    }

    /// How many of `siblings` to invite to `left` bytes: no more than can find a unit.
    #[doc(hidden)]
    pub fn invitations(&self, left: u128, siblings: usize) -> usize {
        let units = usize::try_from(left / self.least()).unwrap_or(usize::MAX);
        units.min(siblings)
    }

    fn least(&self) -> u128 {
        // Half of what a sum can be: twice that is still one.
        self.min_unit_bytes
            .map_or(u128::MAX / 2, |bytes| bytes.max(1).into())
    }
}

/// The cores that can scan a query's lists, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hands {
    /// Cores that take part, the one that asks among them.
    pub inside: usize,
    /// Cores of the domain without work.
    pub idle: usize,
    /// Tasks that wait for a core of the domain.
    pub waiting: usize,
}

impl Hands {
    /// Cores that this query may count on: those inside and the idle ones, less one for each waiting task. At least
    /// one: the core that asks.
    ///
    /// Where more tasks wait than cores are at hand, a query is cut as if it had one core alone, so many hands make it
    /// no more units than one would.
    pub fn cores(&self) -> usize {
        let hands = self.inside.saturating_add(self.idle);
        hands.saturating_sub(self.waiting).max(1)
    }
}

/// How many of the next lists one core should scan as a unit now. `costs` are those of the lists that nobody has taken
/// (bytes), `left` is their sum, and `cores` as [`Hands::cores`] counts them.
///
/// All of them if there is one core, or if they are worth less than two units; but a unit is cut at
/// [`SplitConfig::max_unit_bytes`]. If there is more than one unit for each core, all cores get equally many. With
/// `n` units wanted, the unit costs at most `ceil(left / n)` and half of the dearest single list, because a list is
/// never cut. It is never empty if a list is left.
///
/// ```
/// use chiplet_policy::{SplitConfig, next_unit};
///
/// let config = SplitConfig::new()
///     .min_unit_bytes(Some(100))
///     .max_unit_bytes(1_000)
///     .units_per_core(1);
/// // One long list and six short ones: balanced by bytes, not by lists.
/// let costs = [600, 100, 100, 100, 100, 100, 100];
/// assert_eq!(next_unit(costs, 1_200, 2, &config), 1);
/// // Nobody is free to help, and then there are two units only because one would be too long.
/// assert_eq!(next_unit([100; 7], 700, 1, &config), 7);
/// assert_eq!(next_unit([100; 12], 1_200, 1, &config), 6);
/// ```
pub fn next_unit(
    costs: impl IntoIterator<Item = u64>,
    left: u128,
    cores: usize,
    config: &SplitConfig,
) -> usize {
    let goal = left.div_ceil(wanted(left, cores, config));
    let (mut lists, mut sum) = (0, 0_u128);
    for cost in costs {
        let next = sum + u128::from(cost);
        // Cut where the sum comes closest to the goal.
        let overshoots = next > goal && next - goal > goal.saturating_sub(sum);
        if overshoots && lists > 0 {
            break;
        }
        sum = next;
        lists += 1;
    }
    lists
}

/// How many units what is left is worth.
fn wanted(left: u128, cores: usize, config: &SplitConfig) -> u128 {
    let least = config.least();
    let by_size = left.div_ceil(least.max(u128::from(config.max_unit_bytes)));
    let cores = cores.max(1) as u128;
    let by_cores = match cores {
        1 => 1,
        _ => cores * u128::from(config.units_per_core.max(1)),
    };
    let units = by_cores.min(left / least);
    // Three equal units on two cores take as long as four would: the second core idles while the first runs its
    // second one. So each core gets as many as the others.
    let units = if units > cores {
        units - units % cores
    } else {
        units
    };
    units.max(by_size).max(1)
}
