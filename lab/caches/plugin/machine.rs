//! A whole machine: each of its processors is a modelled core, of the domain that its number says.
//!
//! Only what programs touch is modelled, not what the kernel does. Programs run one after the other, and the caches are
//! cold when one begins (`marker`). Only misses are counted: nobody here is told of modelled time, nor waits for others
//! in it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context as _, ensure};
use chiplet_caches::marker::Phase;
use chiplet_caches::model::Machine;
use chiplet_caches::model::core::{Access, Core};
use chiplet_caches::seen::{Config, Seen};

/// As many programs are modelled; the runner has one for each strategy.
const PROGRAMS: usize = 16;

struct Plugin {
    config: Config,
    programs: [OnceLock<Program>; PROGRAMS],
    /// What has been seen of those that have ended.
    seen: Mutex<Vec<Seen>>,
}

/// The machine while one program runs.
struct Program {
    machine: Machine,
    /// By processor, each of which is a thread of QEMU's: its lock is free.
    cores: Vec<Mutex<Core>>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();
/// The program that runs now, or none.
static CURRENT: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;

pub fn install(config: Config, processors: u32) -> anyhow::Result<()> {
    let (domains, cores) = (config.part.domains, config.part.cores);
    ensure!(
        domains * cores == processors,
        "QEMU has {processors} processors, and {domains} x {cores} are to be modelled"
    );
    let plugin = Plugin {
        config,
        programs: [const { OnceLock::new() }; PROGRAMS],
        seen: Mutex::default(),
    };
    ensure!(PLUGIN.set(plugin).is_ok(), "the plugin was loaded twice");
    Ok(())
}

/// Whether anything is modelled.
pub fn is_going() -> bool {
    CURRENT.load(Ordering::Relaxed) != NONE
}

pub fn on_memory(processor: u32, access: Access) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    if let (Some(phase), true) = (Phase::at(access.address), access.write) {
        if let Err(error) = plugin.mark(phase) {
            eprintln!("caches: {error:#}");
        }
    } else if let Some(program) = plugin.current()
        && let Some(core) = program.cores.get(processor as usize)
    {
        lock(core).access(&program.machine, access);
    }
}

impl Plugin {
    fn current(&self) -> Option<&Program> {
        self.programs.get(CURRENT.load(Ordering::Relaxed))?.get()
    }

    fn mark(&self, phase: Phase) -> anyhow::Result<()> {
        match phase {
            Phase::Warm => {
                let number = lock(&self.seen).len();
                let place = self.programs.get(number);
                let place = place.with_context(|| format!("more than {PROGRAMS} programs"))?;
                ensure!(
                    place.set(Program::new(&self.config)).is_ok(),
                    "a program begins before the last has ended"
                );
                CURRENT.store(number, Ordering::SeqCst);
            }
            Phase::Measured => self.program()?.machine.begin(),
            Phase::Over => {
                let machine = &self.program()?.machine;
                CURRENT.store(NONE, Ordering::SeqCst);
                let mut seen = lock(&self.seen);
                seen.push(Seen {
                    domains: machine.counts(),
                    pairs: machine.pairs(),
                    nanoseconds: 0,
                    forced: 0,
                    bounces: Vec::new(),
                    maps: String::new(),
                });
                super::report(&self.config.report, &*seen)?;
            }
        }
        Ok(())
    }

    fn program(&self) -> anyhow::Result<&Program> {
        self.current()
            .context("a phase was marked, and none has begun")
    }
}

impl Program {
    fn new(config: &Config) -> Self {
        let machine = super::cold(config);
        let Config { part, .. } = config;
        let cores = (0..part.domains * part.cores)
            .map(|processor| Mutex::new(machine.core(Some(processor / part.cores))))
            .collect();
        Self { machine, cores }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
