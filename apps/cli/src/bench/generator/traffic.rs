//! What is asked of which table, and when.

use std::time::Duration;

use chiplet_bench::workload::traffic::{Arrivals, Change, Group, Traffic};

use super::super::arguments::{Arguments, Kind};
use super::super::tables::Tables;
use super::{Pace, Plan};

pub(super) fn traffic(
    arguments: &Arguments,
    built: &Tables,
    plan: &Plan,
) -> anyhow::Result<Traffic> {
    let rate = match plan.pace {
        Pace::Open(rate) => rate,
        // Only the order of arrivals is used.
        Pace::Saturated { .. } | Pace::Closed => 1.0,
    };
    let arrivals = if arguments.bursty {
        // A tenth of the time at three times the calm rate: 0.9 c + 0.1 * 3 c = rate.
        let calm_rate = rate / 1.2;
        Arrivals::Bursty {
            calm_rate,
            burst_rate: 3.0 * calm_rate,
            calm: Duration::from_millis(90),
            burst: Duration::from_millis(10),
        }
    } else {
        Arrivals::Poisson { rate }
    };
    let group = |tables: std::ops::Range<usize>, share| {
        Group::new(tables, built.queries())
            .share(share)
            .table_skew(arguments.table_skew)
            .query_skew(arguments.query_skew)
    };
    let tables = built.all.len();
    let mut traffic = Traffic::new(plan.seed, arrivals);
    if arguments.kind == Kind::Mixed {
        let share = f64::from(arguments.hnsw_share);
        traffic = traffic
            .group(group(0..built.graphs(), share))
            .group(group(built.graphs()..tables, 100.0 - share));
    } else {
        for group in group(0..tables, 1.0).hot(built.hot_share) {
            traffic = traffic.group(group);
        }
    }
    if let (Some(flip), true) = (arguments.flip, plan.flip) {
        traffic = traffic.flip(plan.warmup + flip, Change::Shuffle);
    }
    Ok(traffic)
}

/// Each table's share of the queries, before a flip.
pub(crate) fn shares(arguments: &Arguments, tables: &Tables) -> anyhow::Result<Vec<f64>> {
    let plan = Plan {
        pace: Pace::Open(1.0),
        warmup: Duration::ZERO,
        length: Duration::ZERO,
        seed: arguments.seed,
        flip: false,
    };
    Ok(traffic(arguments, tables, &plan)?.table_shares(Duration::ZERO)?)
}
