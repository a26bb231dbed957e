//! A process: which thread runs on which modelled core, and what time it is there.
//!
//! A thread that is named `{name}-{domain}-{worker}`, as the executor's workers are, is a core of that domain; others
//! run outside. Between the phases that the program marks (`marker`), each block of instructions and each access goes
//! to the model. `clock_gettime` answers with the thread's modelled time, so the program measures in it, and a sleep
//! with an end ends in it.

use std::cell::RefCell;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chiplet_caches::marker::Phase;
use chiplet_caches::model::Machine;
use chiplet_caches::model::core::{Access, Core};
use chiplet_caches::pace::{Pace, Return, ThreadId};
use chiplet_caches::seen::{Config, Seen};

use crate::qemu;

struct Plugin {
    config: Config,
    machine: Machine,
    pace: Pace,
    /// Host times at which modelled time began, by clock: real time, monotonic.
    began: [AtomicU64; 2],
    /// Modelled time at which the measured phase began.
    measured: AtomicU64,
}

/// A thread of the program.
struct Here {
    thread: ThreadId,
    core: Core,
    call: Call,
}

/// The system call that a thread is in.
#[derive(Clone, Copy)]
enum Call {
    /// One that ends soon.
    Short,
    /// Asks for the time: the clock, and where it goes.
    Time(u64, u64),
    /// May sleep; where its end is stored, and the end that the program asked for.
    Sleep(Option<(u64, u64)>),
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();
static GOING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// A sleep with an end is looked after by the model; on the host it lasts this long at most.
const HOST_SLEEP: u64 = 50_000_000;
const PICO: u64 = 1000;

const READ: i64 = 0;
const POLL: i64 = 7;
const SELECT: i64 = 23;
const NANOSLEEP: i64 = 35;
const EXIT: i64 = 60;
const WAIT4: i64 = 61;
const PRCTL: i64 = 157;
const FUTEX: i64 = 202;
const CLOCK_GETTIME: i64 = 228;
const CLOCK_NANOSLEEP: i64 = 230;
const EPOLL_WAIT: i64 = 232;
const PPOLL: i64 = 271;
const EPOLL_PWAIT: i64 = 281;

const SET_NAME: u64 = 15;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_REALTIME: u64 = 256;

/// Whoever joins a thread sleeps on a word that is not private and holds the thread's number, and the kernel wakes it.
/// Such a sleep is known by that number.
const JOIN: u64 = 1 << 63;

pub fn install(config: Config) -> anyhow::Result<()> {
    let machine = super::cold(&config);
    let pace = Pace::new(config.quantum_ns * PICO, machine.costs.wake, qemu::rouse);
    let plugin = Plugin {
        config,
        machine,
        pace,
        began: Default::default(),
        measured: AtomicU64::new(0),
    };
    anyhow::ensure!(PLUGIN.set(plugin).is_ok(), "the plugin was loaded twice");
    Ok(())
}

/// Whether anything is modelled.
pub fn is_going() -> bool {
    GOING.load(Ordering::Relaxed)
}

/// Runs `code` with the plugin and this thread, which is made known the first time.
fn here<R>(code: impl FnOnce(&'static Plugin, &mut Here) -> R) -> R {
    let plugin = PLUGIN.get().expect("calls come after `install`");
    HERE.with_borrow_mut(|here| {
        let here = here.get_or_insert_with(|| {
            let (thread, clock) = plugin.pace.enter();
            let mut core = plugin.machine.core(None);
            core.clock = clock;
            Here {
                thread,
                core,
                call: Call::Short,
            }
        });
        code(plugin, here)
    })
}

pub fn on_block(instructions: u64, pauses: u64) {
    if !is_going() {
        return;
    }
    here(|plugin, here| {
        here.core.run(&plugin.machine, instructions);
        if pauses > 0 {
            here.core.spend(pauses * plugin.machine.costs.pause);
        }
        if plugin.pace.is_ahead(here.core.clock) {
            plugin.pace.meet(here.thread, here.core.clock);
        }
    });
}

pub fn on_memory(access: Access) {
    if let (Some(phase), true) = (Phase::at(access.address), access.write) {
        here(|plugin, here| here.mark(plugin, phase));
    } else if is_going() {
        here(|plugin, here| here.core.access(&plugin.machine, access));
    }
}

pub fn on_syscall(number: i64, arguments: [u64; 4]) {
    here(|plugin, here| {
        here.call = Call::Short;
        if is_going() {
            here.core.spend(plugin.machine.costs.syscall);
        }
        match (number, arguments) {
            (PRCTL, [SET_NAME, name, ..]) => here.call_it(plugin, &qemu::name(name)),
            (CLOCK_GETTIME, [clock @ (0 | 1), to, ..]) => here.call = Call::Time(clock, to),
            (FUTEX, arguments) => here.futex(plugin, arguments),
            (EXIT, _) => {
                let word = JOIN | qemu::thread();
                plugin.pace.wake(here.core.clock, word, u64::MAX);
                plugin.pace.leave(here.thread);
            }
            (
                READ | POLL | SELECT | NANOSLEEP | WAIT4 | CLOCK_NANOSLEEP | EPOLL_WAIT | PPOLL
                | EPOLL_PWAIT,
                _,
            ) => {
                here.call = Call::Sleep(None);
                plugin.pace.rest(here.thread, here.core.clock, None, None);
            }
            _ => (),
        }
    });
}

pub fn on_return(_number: i64, result: i64) {
    here(
        |plugin, here| match std::mem::replace(&mut here.call, Call::Short) {
            Call::Short => (),
            Call::Time(clock, to) => {
                if is_going() && result == 0 {
                    qemu::set_time_at(to, plugin.began(clock) + here.core.clock / PICO);
                }
            }
            Call::Sleep(end) => {
                if let Some((at, end)) = end {
                    qemu::set_time_at(at, end);
                }
                let how = match result {
                    0 => Return::Woken,
                    -11 => Return::AtOnce,
                    _ => Return::Other,
                };
                let clock = plugin.pace.back(here.thread, how);
                here.core.clock = here.core.clock.max(clock);
            }
        },
    );
}

impl Plugin {
    fn began(&self, clock: u64) -> u64 {
        self.began[usize::from(clock != 0)].load(Ordering::Relaxed)
    }

    fn report(&self, clock: u64) -> anyhow::Result<()> {
        let mut bounces = self.machine.bounces();
        bounces.sort_unstable_by_key(|&(_, times)| std::cmp::Reverse(times));
        let seen = Seen {
            domains: self.machine.counts(),
            pairs: self.machine.pairs(),
            nanoseconds: (clock - self.measured.load(Ordering::Relaxed)) / PICO,
            forced: self.pace.forced(),
            bounces: bounces
                .into_iter()
                .take(20_000)
                .map(|((pc, line), times)| (pc, line, times))
                .collect(),
            maps: if self.config.bounces {
                fs::read_to_string("/proc/self/maps")?
            } else {
                String::new()
            },
        };
        super::report(&self.config.report, &seen)
    }
}

impl Here {
    /// A thread says its name: a worker says with it where it runs.
    fn call_it(&mut self, plugin: &Plugin, name: &str) {
        let mut parts = name.rsplitn(3, '-');
        let worker = parts.next().and_then(|part| part.parse::<u32>().ok());
        let domain = parts.next().and_then(|part| part.parse::<u32>().ok());
        if let (Some(worker), Some(domain)) = (worker, domain) {
            let clock = self.core.clock;
            self.core = plugin.machine.worker(domain, worker);
            self.core.clock = clock;
        }
    }

    fn mark(&mut self, plugin: &Plugin, phase: Phase) {
        match phase {
            Phase::Warm => {
                for (clock, began) in plugin.began.iter().enumerate() {
                    began.store(qemu::host_time(clock as u64), Ordering::Relaxed);
                }
                GOING.store(true, Ordering::SeqCst);
                plugin.pace.begin();
            }
            Phase::Measured => {
                plugin.measured.store(self.core.clock, Ordering::Relaxed);
                plugin.machine.begin();
            }
            Phase::Over => {
                GOING.store(false, Ordering::SeqCst);
                plugin.pace.end();
                if let Err(error) = plugin.report(self.core.clock) {
                    eprintln!("caches: {error:#}");
                }
            }
        }
    }

    fn futex(&mut self, plugin: &Plugin, [word, operation, count, time]: [u64; 4]) {
        let clock = self.core.clock;
        match operation & 127 {
            FUTEX_WAKE | FUTEX_WAKE_BITSET => {
                plugin
                    .pace
                    .wake(clock, word, count.min(u64::from(u32::MAX)));
            }
            kind @ (FUTEX_WAIT | FUTEX_WAIT_BITSET) => {
                let mut until = None;
                let mut end = None;
                if time != 0 && is_going() {
                    let asked = qemu::time_at(time);
                    end = Some((time, asked));
                    let (until_ps, host) = if kind == FUTEX_WAIT {
                        (clock.saturating_add(asked.saturating_mul(PICO)), 0)
                    } else {
                        let which = u64::from(operation & FUTEX_REALTIME == 0);
                        let after = asked.saturating_sub(plugin.began(which));
                        (after.saturating_mul(PICO), qemu::host_time(which))
                    };
                    until = Some(until_ps);
                    let patience = if until_ps <= clock { 0 } else { HOST_SLEEP };
                    qemu::set_time_at(time, host + patience);
                }
                let word = if operation & FUTEX_PRIVATE == 0 {
                    JOIN | count
                } else {
                    word
                };
                self.call = Call::Sleep(end);
                plugin.pace.rest(self.thread, clock, Some(word), until);
            }
            _ => (),
        }
    }
}
