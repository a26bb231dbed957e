//! What the executor's promises are worth to a table beside others that do not behave: stalls, floods, bulk work,
//! batches. `cargo bench --bench abuse`: two minutes. `cargo bench --bench abuse -- stalls floods` runs those alone.
//!
//! Machines are made up, and tasks sleep instead of computing, so that many workers fit any machine: what is seen is
//! who is served when, not how fast. Waits of milliseconds mean something, microseconds do not.
//!
//! | scenario | asks |
//! | --- | --- |
//! | `stalls` | does a table with deadlines answer again after tasks that took far longer than usual? |
//! | `homes` | do quiet tables stay in their home beside a flooding one? |
//! | `floods` | how long do others wait beside a table that floods, or beside bulk work, by how much they ask for? |
//! | `shared` | how long do others wait beside one task that shares out its work (`Context::par_map`)? |
//! | `batches` | do single queries keep their deadlines beside batches of the same table? |

mod batches;
mod floods;
mod homes;
#[path = "../poisson/mod.rs"]
mod poisson;
mod seen;
mod shared;
mod stalls;

use chiplet::{Builder, Executor, Pin, PlannerConfig, Topology, TriggerConfig};

type Scenario = (&'static str, fn());

const SCENARIOS: [Scenario; 5] = [
    ("stalls", stalls::run),
    ("homes", homes::run),
    ("floods", floods::run),
    ("shared", shared::run),
    ("batches", batches::run),
];

fn main() {
    // cargo adds --bench.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = asked.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("no scenario {unknown}: there are {}", names.join(", "));
        std::process::exit(2);
    }
    for (name, run) in SCENARIOS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            println!("\n{name}");
            run();
        }
    }
}

/// So many domains of so many workers each, whose tables stay where they are put.
fn machine(domains: u32, workers: u32) -> Builder {
    let still = PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None));
    Executor::builder()
        .topology(Topology::uniform(domains, workers, 32 << 20))
        .pin(Pin::None)
        .planner(still)
}

fn start(builder: Builder) -> Executor {
    builder.build().expect("some threads can be started")
}
