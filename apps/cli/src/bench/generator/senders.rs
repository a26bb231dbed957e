//! The threads that send, and the cores that they have to themselves.

use anyhow::{Context as _, ensure};
use chiplet_topology::{Topology, cpu_ranges, pin};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Cores of a machine for each sender: what one can keep busy with searches of some 10 us.
const CORES_A_SENDER: usize = 12;

/// Senders, started before the pools and before hardware counters are opened: so they are not counted.
pub(crate) struct Senders {
    pool: ThreadPool,
    cpus: Vec<Vec<u32>>,
}

impl Senders {
    /// One on each of these cores' cpus; `shared` ones that go wherever the system puts them if there are none.
    pub(crate) fn start(cpus: Vec<Vec<u32>>, shared: usize) -> anyhow::Result<Self> {
        let own = cpus.clone();
        let pool = ThreadPoolBuilder::new()
            .num_threads(if cpus.is_empty() { shared } else { cpus.len() })
            .thread_name(|index| format!("sender-{index}"))
            .start_handler(move |index| {
                if let Some(cpus) = own.get(index)
                    && let Err(error) = pin::pin_current_thread(cpus)
                {
                    eprintln!("chiplet: sender {index} is not on cores of its own: {error}");
                }
            })
            .build()
            .context("the senders did not start")?;
        Ok(Self { pool, cpus })
    }

    pub(crate) fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Whether each has a core that no worker uses.
    pub(crate) fn have_own_cores(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// Their cpus, as `7,15`; empty without own cores.
    pub(crate) fn cpus(&self) -> String {
        cpu_ranges(self.cpus.iter().flatten())
    }

    /// Has every sender do `send` with its number, while this thread does `watch`.
    pub(super) fn run<R>(&self, send: impl Fn(usize) + Sync, watch: impl FnOnce() -> R) -> R {
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, sender| send(sender.index()));
            watch()
        })
    }
}

/// The machine without the cores of the senders, and those cores' cpus: one for each `asked`, or for each twelve cores
/// where nobody asked. They come from the domain with most cores left, so that domains stay alike.
///
/// A core may have several cpus (SMT); none of them is left to a worker.
pub(crate) fn apart(
    topology: &Topology,
    asked: Option<u32>,
) -> anyhow::Result<(Topology, Vec<Vec<u32>>)> {
    // A CPU quota leaves time for fewer threads than there are cores.
    let cores = topology.worker_limit();
    let senders = asked.map_or(cores / CORES_A_SENDER, |asked| asked as usize);
    if senders == 0 {
        return Ok((topology.clone(), Vec::new()));
    }
    ensure!(
        senders < cores,
        "--senders {senders}: each has a core of its own, and of {cores} one at least has to work; give less, or 0 to \
         share cores with the workers"
    );
    let mut left: Vec<Vec<Vec<u32>>> = topology
        .domains()
        .iter()
        .map(|domain| domain.cores.iter().map(|core| core.cpus.clone()).collect())
        .collect();
    let mut taken = Vec::new();
    for _ in 0..senders {
        let largest = left.iter_mut().max_by_key(|cores| cores.len());
        taken.extend(largest.and_then(Vec::pop));
    }
    let left: Vec<u32> = left.into_iter().flatten().flatten().collect();
    Ok((topology.restricted_to(&left)?, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_have_cores_of_their_own_from_the_largest_domains() {
        let genoa = Topology::uniform(12, 8, 32 << 20);
        let (left, taken) = apart(&genoa, None).unwrap();
        assert_eq!((left.core_count(), taken.len()), (88, 8));
        let cores = left.domains().iter().map(|domain| domain.cores.len());
        assert!(cores.clone().all(|cores| cores == 7 || cores == 8));
        assert_eq!(cores.filter(|&cores| cores == 7).count(), 8);
        assert!(
            taken
                .iter()
                .flatten()
                .all(|cpu| !left.domains().iter().any(|d| d.cpus().contains(cpu)))
        );
    }

    #[test]
    fn small_machines_share_their_cores_and_the_user_decides() {
        let small = Topology::uniform(2, 4, 32 << 20);
        let (left, taken) = apart(&small, None).unwrap();
        assert_eq!((left.core_count(), taken.len()), (8, 0));
        let (left, taken) = apart(&small, Some(3)).unwrap();
        assert_eq!((left.core_count(), taken.len()), (5, 3));
        assert_eq!(apart(&small, Some(0)).unwrap().0.core_count(), 8);
        let error = apart(&small, Some(8)).unwrap_err().to_string();
        assert!(
            error.contains("--senders 8") && error.contains("0 to share"),
            "{error}"
        );
    }

    #[test]
    fn a_quota_counts_as_the_cores_that_it_pays_for() {
        let machine = Topology::builder()
            .domain(32 << 20, 8)
            .domain(32 << 20, 8)
            .domain(32 << 20, 8)
            .quota(4_000)
            .build()
            .unwrap();
        let (left, taken) = apart(&machine, None).unwrap();
        assert_eq!((left.core_count(), taken.len()), (24, 0));
        assert_eq!(apart(&machine, Some(1)).unwrap().1.len(), 1);
        assert!(apart(&machine, Some(4)).is_err());
    }

    #[test]
    fn every_sender_runs_and_the_caller_watches_meanwhile() {
        let senders = Senders::start(Vec::new(), 3).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let tell = parking_lot::Mutex::new(tell);
        let watched = senders.run(
            |index| tell.lock().send(index).unwrap(),
            || {
                let mut seen: Vec<usize> = (0..3).map(|_| told.recv().unwrap()).collect();
                seen.sort_unstable();
                seen
            },
        );
        assert_eq!(watched, [0, 1, 2]);
        assert!(!senders.have_own_cores());
    }
}
