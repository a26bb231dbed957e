//! A chiplet CPU in virtual time: what placement would give on machines that one does not have.
//!
//! **Everything here is modelled.** A machine is a topology with caches, links and memory ([`Machine`]); a workload is
//! tables and traffic ([`Workload`], from a [`Recipe`]); what queries read is recorded from searches of real tables and
//! scaled ([`trace`]). The decisions are not modelled: the order of service, who takes work from whom, how queries are
//! cut and where tables live are `chiplet_policy`, the code that the executor runs.
//!
//! Runs are deterministic: the same scenario gives the same figures, to the bit. `results/lab/2026-11/simulation.md`
//! says what is modelled and what is not.
//!
//! ```
//! use chiplet_baselines::Strategy;
//! use chiplet_sim::{Machine, Prepared, Recipe, Sampling, Scenario};
//!
//! let machine = Machine::preset("milan-7763")?.with_domains(2)?;
//! let recipe: Recipe = "
//!     name = 'small'
//!     [[tables]]
//!     kind = 'hnsw'
//!     count = 4
//!     rows = [1_000, 2_000]
//!     dims = [64]
//! ".parse()?;
//! let prepared = Prepared::new(recipe.workload(1), Sampling::default(), |_| ());
//! let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
//! (scenario.warmup, scenario.measured) = (500, 1_000);
//! let outcome = scenario.run(&mut |_| ());
//! assert_eq!(outcome.counted, 1_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod compute;
mod engine;
mod machine;
mod outcome;
pub mod trace;
mod workload;

pub use compute::Compute;
#[doc(hidden)]
pub use engine::replay::replay;
pub use engine::{Load, Scenario, Settings};
pub use machine::{Costs, Machine, MachineError, PRESETS, Pages, UnderLoad, Ways};
pub use outcome::{Expired, Moved, Outcome, Percentiles, Served};
pub use workload::{
    Arrivals, Ask, Asking, Drawn, Flip, Prepared, Recipe, RecipeError, Rerank, Sampling, Scoring,
    Stall, Stalled, Table, Tenant, Topics, Workload,
};
