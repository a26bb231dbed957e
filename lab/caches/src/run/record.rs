//! What one run found, from what the plugin has seen and the program has told.

use chiplet_caches::model::counts::Counts;
use chiplet_caches::record::{RunRecord, Steals};
use chiplet_caches::seen::{Seen, Told};

use crate::bounces;

pub fn run(
    strategy: &str,
    repeat: u64,
    cores: u32,
    seen: Seen,
    told: Told,
) -> anyhow::Result<RunRecord> {
    let bounces = bounces::resolve(&seen)?;
    let mut domains = seen.domains;
    let clients = domains.pop().unwrap_or_default();
    let mut all = Counts::default();
    for domain in &domains {
        all.add(domain);
    }
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let [own, domain, remote] = told.steals;
    let workers = domains.len();
    let between = seen.pairs[..workers].iter().flat_map(|to| &to[..workers]);
    Ok(RunRecord {
        strategy: strategy.to_owned(),
        repeat,
        queries: told.queries,
        modelled_qps: told.qps,
        modelled_ns: seen.nanoseconds,
        modelled_latency_us: told.latencies_ns.map(|time| time as f64 / 1000.0),
        instructions: all.instructions,
        l1_accesses: all.l1_accesses,
        l1_misses: all.l1_misses,
        l2_misses: all.l2_misses,
        l3_accesses: all.l2_misses,
        l3_misses: all.l3_misses,
        lines_across: all.lines_across,
        lines_across_workers: between.sum(),
        lines_within: all.lines_within,
        page_walks: all.page_walks,
        stalled: share(all.stalled_ps, all.ran_ps),
        queued: share(all.queued_ps, all.ran_ps),
        busy: all.ran_ps as f64
            / (seen.nanoseconds as f64 * 1000.0 * workers as f64 * f64::from(cores)),
        steals: Steals {
            own,
            domain,
            remote,
            remote_share: share(remote, own + domain + remote),
        },
        forced: seen.forced,
        domains,
        clients,
        pairs: seen.pairs,
        bounces,
    })
}
