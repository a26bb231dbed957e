//! The first-order law.
//!
//! Let near memory take 1 and far memory lambda. A share R of the traffic is remote, so a miss takes
//! `1 + R (lambda - 1)` on the mean; afterwards it takes `1 + q (lambda - 1)`. Stalls are MSR of all cycles and shrink
//! alike, so of all cycles
//!
//! ```text
//! gain = MSR (R - q) (lambda - 1) / (1 + R (lambda - 1))
//! ```
//!
//! are saved. For MAO's latencies (138 and 80 ns, lambda = 1.725), R = 0.42 and q = 0 it is 0.23 MSR.

use serde::{Deserialize, Serialize};

use crate::features::RemoteBy;

/// What the law is fed with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Cycles stalled on memory of all unhalted cycles.
    pub msr: f64,
    /// The share of memory traffic that is remote now.
    pub rmbr: f64,
    /// What `rmbr` was told by.
    pub remote_by: Option<RemoteBy>,
    /// The share that would be remote afterwards: the share of mapped pages that lie elsewhere.
    pub q: f64,
    /// Latency of far over latency of near memory.
    pub lambda: f64,
}

impl Terms {
    /// The share of cycles that is saved; negative if more would be remote than now.
    ///
    /// ```
    /// use chiplet_advise::Terms;
    /// let terms = Terms { msr: 1.0, rmbr: 0.42, remote_by: None, q: 0.0, lambda: 138.0 / 80.0 };
    /// assert!((terms.gain() - 0.2335).abs() < 0.0001);
    /// ```
    pub fn gain(&self) -> f64 {
        let dearer = self.lambda - 1.0;
        self.msr * (self.rmbr - self.q) * dearer / (1.0 + self.rmbr * dearer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(msr: f64, rmbr: f64, q: f64, lambda: f64) -> Terms {
        Terms {
            msr,
            rmbr,
            remote_by: None,
            q,
            lambda,
        }
    }

    proptest! {
        /// No more than what stalls is saved; more stalls, more remote traffic and dearer memory save more; and as much
        /// is saved as the mean latency falls.
        #[test]
        fn the_law_keeps_to_its_bounds(
            msr in 0.0..=1.0_f64, rmbr in 0.0..=1.0_f64, q in 0.0..=1.0_f64, lambda in 1.0..5.0_f64,
        ) {
            let gain = terms(msr, rmbr, q, lambda).gain();
            prop_assert!(gain <= msr);
            prop_assert_eq!(gain > 0.0, msr > 0.0 && rmbr > q && lambda > 1.0);
            if q <= rmbr {
                prop_assert!(terms((msr + 0.1).min(1.0), rmbr, q, lambda).gain() >= gain);
                prop_assert!(terms(msr, (rmbr + 0.1).min(1.0), q, lambda).gain() >= gain - 1e-12);
                prop_assert!(terms(msr, rmbr, q, lambda + 0.1).gain() >= gain - 1e-12);
            }
            let latency = |share: f64| 1.0 + share * (lambda - 1.0);
            let saved = msr * (1.0 - latency(q) / latency(rmbr));
            prop_assert!((gain - saved).abs() < 1e-9);
        }
    }
}
