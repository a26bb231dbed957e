//! How a model check is written down: a scenario that holds, and the steps without which it fails.

/// For each scenario a test that explores it, and one for each step it must not do without, which has to fail.
macro_rules! checks {
    ($($name:ident: $scenario:ident without $($step:ident)*;)*) => {$(
        mod $name {
            #[test]
            fn holds() {
                crate::checks::explore(stringify!($scenario), super::$scenario);
            }

            $(
                #[test]
                #[allow(non_snake_case, reason = "the step's own name")]
                fn $step() {
                    let step = crate::sync::Step::$step;
                    if crate::sync::left_out(step) {
                        crate::checks::explore(stringify!($scenario), super::$scenario);
                    } else {
                        crate::checks::fails_without(step, concat!(module_path!(), "::", stringify!($step)));
                    }
                }
            )*
        }
    )*};
}
pub(crate) use checks;

/// The test of this path fails in a process that leaves the step out. A process of its own, because a model that fails
/// half way may end in a second panic.
pub(crate) fn fails_without(step: crate::sync::Step, path: &str) {
    let (_, test) = path.split_once("::").expect("a path within this crate");
    let this = std::env::current_exe().expect("a test is a file");
    let outcome = std::process::Command::new(this)
        .args(["--exact", test])
        .env("CHIPLET_LEFT_OUT", format!("{step:?}"))
        .output()
        .expect("this program can be run again");
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(said.contains("running 1 test"), "there is no test {test}");
    assert!(
        !outcome.status.success(),
        "nothing goes wrong without {step:?}"
    );
    println!("verify: it fails without {step:?}, as it has to | 1 broken variant |");
}

/// Scenarios that a third preemption takes from seconds to more than ten minutes.
#[cfg(chiplet_loom)]
const LARGE: [&str; 2] = [
    "two_workers_and_two_submitters_lose_nothing",
    "a_call_for_help_outlives_work_at_home",
];

/// Every interleaving of a scenario, up to the number of preemptions that `LOOM_MAX_PREEMPTIONS` allows.
#[cfg(chiplet_loom)]
pub(crate) fn explore(name: &str, scenario: impl Fn() + Send + Sync + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let explored = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&explored);
    let begun = std::time::Instant::now();
    let mut model = loom::model::Builder::new();
    if LARGE.contains(&name) {
        model.preemption_bound = model.preemption_bound.map(|bound| bound.min(2));
    }
    model.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        crate::sync::begin();
        scenario();
    });
    report(
        "loom",
        name,
        "interleavings",
        explored.load(Ordering::Relaxed),
        begun,
    );
}

/// Schedules drawn at random, half of them by PCT; `CHIPLET_SCHEDULES` says how many of each.
#[cfg(chiplet_shuttle)]
pub(crate) fn explore(name: &str, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, FailurePersistence, Runner};

    /// Steps that have to come in one order for a bug to show, of which PCT finds a known share.
    const DEPTH: usize = 3;

    let asked = std::env::var("CHIPLET_SCHEDULES").ok();
    let schedules = asked.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    // A broken variant is explored until it fails. A rare failure that few schedules show must not pass for none.
    let broken = std::env::var_os("CHIPLET_LEFT_OUT").is_some();
    let schedules = if broken { 20 * schedules } else { schedules };
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = FailurePersistence::Print;
    let begun = std::time::Instant::now();
    let scenario = move || {
        crate::sync::begin();
        scenario();
    };
    let by_chance = Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario);
    let by_pct = Runner::new(PctScheduler::new(DEPTH, schedules), config).run(scenario);
    report(
        "shuttle",
        name,
        "schedules",
        (by_chance + by_pct) as u64,
        begun,
    );
}

fn report(checker: &str, name: &str, what: &str, count: u64, begun: std::time::Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "verify: {checker}: {} | {count} {what} | {seconds:.1} s",
        name.replace('_', " ")
    );
}
