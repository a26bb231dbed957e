//! A moment, as decisions see it.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A moment: nanoseconds since an executor or a simulation began. So it can be written to a log and read back, and
/// decisions can be replayed.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::Time;
///
/// let came = Time::from_nanos(1_500);
/// let taken = came + Duration::from_micros(2);
/// assert_eq!(taken.since(came), Duration::from_micros(2));
/// assert_eq!(came.since(taken), Duration::ZERO);
/// assert_eq!(Time::from_nanos(taken.as_nanos()), taken);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// The latest moment: 584 years after the beginning.
    pub const MAX: Self = Self(u64::MAX);

    /// So many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time between the two; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Earlier by `time`; the beginning at the earliest.
    pub const fn before(self, time: Duration) -> Self {
        let nanos = time.as_nanos();
        let nanos = if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            nanos as u64
        };
        Self(self.0.saturating_sub(nanos))
    }

    /// So many seconds after the beginning.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// So many milliseconds after the beginning.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The time since the beginning.
    pub const fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Later by `time`; at most [`Time::MAX`].
    fn add(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl From<Duration> for Time {
    /// The moment that long after the beginning.
    fn from(since_beginning: Duration) -> Self {
        Self::ZERO + since_beginning
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.elapsed(), out)
    }
}
