//! Opening and reading counters through `perf_event_open`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use perf_event::{Builder, Counter};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::names::{L3_LOOKUPS, L3_MISSES};
use super::processor::Processor;
use super::wanted::{
    Wanted, l3_event, one_cpu_of_each_l3, processor, progress, wanted, wanted_of_memory,
};
use super::{EventReading, Reading, Sample, Unavailable};

/// Counters that run from when they were opened until they are dropped, one group at a time.
pub struct Counters {
    events: Vec<Opened>,
    groups: usize,
    /// The group that counts.
    turn: usize,
    missing: Vec<&'static str>,
    /// What is said of the L3's own counters, where there are any.
    l3: Option<String>,
}

/// One event, with a counter for each thread.
struct Opened {
    name: &'static str,
    unit: f64,
    group: usize,
    counters: Vec<Counter>,
}

impl Counters {
    /// Counts the threads with these ids, or the calling thread if there are none, and all threads that they
    /// start from now on. Each event is opened on its own: what this machine lacks is missing, the rest counts. The
    /// L3's own counters on AMD are counted too, for the whole machine, where the system permits it.
    ///
    /// Takes a file descriptor for each event and thread, so open it before a pool is started rather than
    /// with the ids of its threads.
    ///
    /// # Errors
    /// [`Unavailable`] if not one event can be counted, with the reason of the first.
    pub fn open(threads: &[i32]) -> Result<Self, Unavailable> {
        let processor = processor();
        let mut counters = Self::open_events(threads, wanted(processor))?;
        counters.add_l3(processor);
        Ok(counters)
    }

    /// Counts all that runs in a control group, whose folder this is, on these cpus: instructions, cycles, what waits
    /// for memory. The kernel lets events take turns where they are more than its counters.
    ///
    /// Takes a file descriptor for each event and cpu.
    ///
    /// # Errors
    /// As [`Counters::open`].
    pub fn of_group(folder: &Path, cpus: &BTreeSet<u32>) -> Result<Self, Unavailable> {
        Self::of(folder, cpus, wanted_of_memory(processor()))
    }

    /// The same of instructions and cycles alone, which need not take turns.
    ///
    /// # Errors
    /// As [`Counters::open`].
    pub fn instructions_of_group(folder: &Path, cpus: &BTreeSet<u32>) -> Result<Self, Unavailable> {
        Self::of(folder, cpus, progress(processor()))
    }

    fn of(folder: &Path, cpus: &BTreeSet<u32>, wanted: Vec<Wanted>) -> Result<Self, Unavailable> {
        allow_many_files();
        let opened = File::open(folder).map_err(Unavailable::Other)?;
        Self::open_for(Who::Group(&opened, cpus), wanted)
    }

    /// Adds requests and misses of every L3, which only system-wide counting gives.
    fn add_l3(&mut self, processor: Processor) {
        let Some(events) = processor.l3() else { return };
        let Some(cpus) = one_cpu_of_each_l3() else {
            return;
        };
        let opened = events.map(|(name, event, mask)| {
            let event = l3_event(event, mask).map_err(Unavailable::Other)?;
            let counters = Who::Machine(&cpus).open(event, true)?;
            Ok(Opened {
                name,
                unit: 1.0,
                group: 0,
                counters,
            })
        });
        // One without the other is no ratio.
        let opened: Result<Vec<_>, Unavailable> = opened.into_iter().collect();
        self.l3 = Some(match opened {
            Ok(opened) => {
                self.events.extend(opened);
                "L3 requests and misses of the whole machine".to_owned()
            }
            Err(Unavailable::Paranoid { .. } | Unavailable::Forbidden) => {
                "the L3s' own counters need perf_event_paranoid 0 or CAP_PERFMON".to_owned()
            }
            Err(why) => format!("the L3s' own counters are {why}"),
        });
    }

    fn open_events(threads: &[i32], wanted: Vec<Wanted>) -> Result<Self, Unavailable> {
        // To the kernel, 0 is the calling thread.
        let threads = if threads.is_empty() { &[0] } else { threads };
        Self::open_for(Who::Threads(threads), wanted)
    }

    fn open_for(who: Who<'_>, wanted: Vec<Wanted>) -> Result<Self, Unavailable> {
        let (mut events, mut missing, mut first_reason) = (Vec::new(), Vec::new(), None);
        let groups = wanted
            .iter()
            .map(|wanted| wanted.group + 1)
            .max()
            .unwrap_or(1);
        for Wanted {
            name,
            unit,
            group,
            event,
        } in wanted
        {
            match who.open(event, group == 0) {
                Ok(counters) => events.push(Opened {
                    name,
                    unit,
                    group,
                    counters,
                }),
                Err(why) => {
                    missing.push(name);
                    first_reason.get_or_insert(why);
                }
            }
        }
        // Events of one name add up: some of them are not their sum.
        events.retain(|event| !missing.contains(&event.name));
        if events.is_empty() {
            return Err(first_reason.unwrap_or(Unavailable::NoThreads));
        }
        Ok(Self {
            events,
            groups,
            turn: 0,
            missing,
            l3: None,
        })
    }

    /// Has the group count whose turn it is in round `round`. What cannot be switched keeps counting, or rests.
    pub fn take_turn(&mut self, round: usize) {
        self.turn = round % self.groups;
        for event in &mut self.events {
            let counts = event.group == self.turn;
            for counter in &mut event.counters {
                let switched = if counts {
                    counter.enable()
                } else {
                    counter.disable()
                };
                if let Err(error) = switched {
                    eprintln!(
                        "chiplet: the counter of {} cannot be switched: {error}",
                        event.name
                    );
                }
            }
        }
    }

    /// All counters as they stand, one after the other.
    pub fn read(&mut self) -> Reading {
        let sample = |counter: &mut Counter| {
            let now = counter.read_count_and_time().ok()?;
            Some(Sample {
                count: now.count,
                enabled: now.time_enabled,
                running: now.time_running,
            })
        };
        let turn = self.turn;
        let events = self.events.iter_mut().map(|event| EventReading {
            name: event.name,
            unit: event.unit,
            rests: event.group != turn,
            samples: event.counters.iter_mut().map(sample).collect(),
        });
        Reading(events.collect())
    }

    /// What is counted and what is not, in one line.
    pub fn summary(&self) -> String {
        let mut names: Vec<_> = self.events.iter().map(|event| event.name).collect();
        names.retain(|name| ![L3_LOOKUPS, L3_MISSES].contains(name));
        names.dedup();
        let mut text = format!("{}, in user space", names.join(", "));
        if self.groups > 1 {
            text += &format!(", in {} groups that take turns by round", self.groups);
        }
        if !self.missing.is_empty() {
            let mut missing = self.missing.clone();
            missing.dedup();
            text += &format!("; not offered here: {}", missing.join(", "));
        }
        if let Some(l3) = &self.l3 {
            text += &format!("; {l3}");
        }
        text
    }
}
/// Who is counted.
#[derive(Clone, Copy)]
enum Who<'a> {
    /// These threads, in user space, and all that they start.
    Threads(&'a [i32]),
    /// A control group on these cpus, the kernel's work for it included.
    Group(&'a File, &'a BTreeSet<u32>),
    /// All that runs, counted at these cpus.
    Machine(&'a BTreeSet<u32>),
}

impl Who<'_> {
    /// A counter for each thread that still exists, or for each cpu.
    fn open(self, mut event: Builder<'static>, enabled: bool) -> Result<Vec<Counter>, Unavailable> {
        event.enabled(enabled);
        let mut counters = Vec::new();
        match self {
            Self::Threads(threads) => {
                // User space alone is what a builder counts unless told otherwise.
                event.inherit(true);
                for &thread in threads {
                    match event.observe_pid(thread).build() {
                        Ok(counter) => counters.push(counter),
                        Err(why) if Errno::from_io_error(&why) == Some(Errno::SRCH) => {}
                        Err(why) => return Err(reason(why, paranoid())),
                    }
                }
            }
            Self::Group(folder, cpus) => {
                let mut event: Builder<'_> = event;
                event.include_kernel();
                for &cpu in cpus {
                    let built = event.one_cpu(cpu as usize).observe_cgroup(folder).build();
                    counters.push(built.map_err(|why| reason(why, paranoid()))?);
                }
            }
            Self::Machine(cpus) => {
                // Counters outside the cores know no modes, and the kernel refuses to leave one out.
                event.include_kernel().include_hv();
                for &cpu in cpus {
                    let built = event.any_pid().one_cpu(cpu as usize).build();
                    counters.push(built.map_err(|why| reason(why, paranoid()))?);
                }
            }
        }
        match counters.is_empty() {
            true => Err(Unavailable::NoThreads),
            false => Ok(counters),
        }
    }
}

/// As many open files as the system lets this process have: most shells give it 1,024, and some events on 192 cpus
/// take more.
fn allow_many_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where it is refused, opening says that there are too many.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// `perf_event_paranoid`, if the system tells.
fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

fn reason(why: io::Error, paranoid: Option<i32>) -> Unavailable {
    let no_hardware = |errno: &str| Unavailable::NoHardware {
        errno: errno.to_owned(),
    };
    match (Errno::from_io_error(&why), paranoid) {
        (Some(Errno::NOENT), _) => no_hardware("ENOENT"),
        (Some(Errno::NODEV), _) => no_hardware("ENODEV"),
        (Some(Errno::OPNOTSUPP), _) => no_hardware("EOPNOTSUPP"),
        (Some(Errno::NOSYS), _) => no_hardware("ENOSYS"),
        (Some(Errno::ACCESS | Errno::PERM), Some(level)) if level > 2 => {
            Unavailable::Paranoid { level }
        }
        (Some(Errno::ACCESS | Errno::PERM), _) => Unavailable::Forbidden,
        (Some(Errno::MFILE | Errno::NFILE), _) => Unavailable::TooManyFiles,
        _ => Unavailable::Other(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CounterValues;
    use super::*;
    use crate::counters::names::{CYCLES, INSTRUCTIONS, STALLED};
    use perf_event::events::Software;
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    const FAULTS: &str = "page faults";
    const CLOCK: &str = "task clock";

    /// Events that the kernel itself counts, and one that exists nowhere.
    fn software() -> Vec<Wanted> {
        let wanted = |name, group, event| Wanted {
            name,
            unit: 1.0,
            group,
            event,
        };
        vec![
            wanted("nothing", 0, Builder::new(Software(u64::MAX))),
            wanted(FAULTS, 0, Builder::new(Software::PAGE_FAULTS)),
            wanted(CLOCK, 0, Builder::new(Software::TASK_CLOCK)),
        ]
    }

    /// Counters of software events; `None` where even these are forbidden, as in some containers.
    fn open(threads: &[i32]) -> Option<Counters> {
        match Counters::open_events(threads, software()) {
            Ok(counters) => Some(counters),
            Err(Unavailable::Paranoid { .. } | Unavailable::Forbidden) => None,
            Err(other) => panic!("{other}"),
        }
    }

    /// Faults that reading this much fresh memory takes at the least: pages may be of 2 MiB.
    const LEAST_FAULTS: f64 = 16.0;

    fn touch_fresh_memory() {
        let mut memory = vec![0_u8; 64 << 20];
        memory
            .iter_mut()
            .step_by(4 << 10)
            .for_each(|byte| *byte = 1);
        black_box(memory);
    }

    /// Counts a thread that is started now.
    fn see_another_thread(counters: &mut Counters) -> CounterValues {
        let before = counters.read();
        thread::spawn(touch_fresh_memory).join().unwrap();
        let values = counters.read().since(&before);
        assert!(values.total(FAULTS).unwrap() >= LEAST_FAULTS, "{values:?}");
        assert!(values.total(CLOCK).unwrap() > 0.0, "{values:?}");
        values
    }

    #[test]
    fn threads_that_are_started_later_are_counted() {
        let Some(mut counters) = open(&[]) else {
            return;
        };
        let values = see_another_thread(&mut counters);
        assert_eq!(values.coverage(), 1.0);
    }

    #[test]
    fn a_control_group_is_counted_by_cpu() {
        // Version 2 has it everywhere; of version 1 it is a hierarchy of its own.
        let folders = [
            "/sys/fs/cgroup/perf_event",
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup",
        ];
        let folder = folders
            .into_iter()
            .find_map(|folder| File::open(folder).ok());
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let (Some(folder), Ok(cpus)) = (folder, chiplet_topology::parse_list(&online)) else {
            return;
        };
        // An ordinary user may not, and a container may hide the hierarchy.
        let Ok(mut counters) = Counters::open_for(Who::Group(&folder, &cpus), software()) else {
            eprintln!("skipped: control groups cannot be counted here");
            return;
        };
        see_another_thread(&mut counters);
    }

    #[test]
    fn groups_count_by_turns() {
        let mut events = software();
        events[2].group = 1;
        let Ok(mut counters) = Counters::open_events(&[], events) else {
            return;
        };
        for (round, counted, rests) in [(0, FAULTS, CLOCK), (1, CLOCK, FAULTS), (2, FAULTS, CLOCK)]
        {
            counters.take_turn(round);
            let before = counters.read();
            // Threads that were started before are switched, too.
            thread::spawn(touch_fresh_memory).join().unwrap();
            let values = counters.read().since(&before);
            assert!(values.total(counted).unwrap() > 0.0, "{round}: {values:?}");
            assert_eq!(values.total(rests), None);
            assert_eq!(values.coverage(), 1.0);
        }
    }

    #[test]
    fn named_threads_are_counted_and_no_others() {
        let (tell, id) = mpsc::channel();
        let (work, orders) = mpsc::channel::<()>();
        let (done, finished) = mpsc::channel();
        let worker = thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            for () in orders {
                touch_fresh_memory();
                done.send(()).unwrap();
            }
        });
        if let Some(mut counters) = open(&[id.recv().unwrap()]) {
            let start = counters.read();
            touch_fresh_memory();
            let idle = counters.read();
            work.send(()).unwrap();
            finished.recv().unwrap();
            let busy = counters.read();
            // The worker takes its order, which may be the first use of a page or two.
            let other = idle.since(&start).total(FAULTS).unwrap();
            assert!(other < LEAST_FAULTS, "{other} faults while it waited");
            let own = busy.since(&idle).total(FAULTS).unwrap();
            assert!(own >= LEAST_FAULTS, "{own} faults");
        }
        drop(work);
        worker.join().unwrap();
    }

    #[test]
    fn an_event_that_is_missing_leaves_the_others() {
        let Some(mut counters) = open(&[]) else {
            return;
        };
        let summary = counters.summary();
        let expected = "page faults, task clock, in user space; not offered here: nothing";
        assert_eq!(summary, expected);
        let before = counters.read();
        let values = counters.read().since(&before);
        assert_eq!(values.total("nothing"), None);
        assert!(values.total(FAULTS).is_some());
    }

    #[test]
    fn threads_that_have_ended_are_passed_over() {
        let ended = thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let ended = ended.join().unwrap();
        // Joining a thread returns a little before the kernel has let go of it.
        let entry = format!("/proc/self/task/{ended}");
        let patience = Instant::now() + Duration::from_secs(30);
        while fs::exists(&entry).unwrap() {
            assert!(Instant::now() < patience, "{entry} is still there");
            thread::sleep(Duration::from_millis(1));
        }
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        if open(&[own, ended]).is_some() {
            let none = Counters::open_events(&[ended], software());
            assert!(matches!(none, Err(Unavailable::NoThreads)));
        }
    }

    #[test]
    fn hardware_is_counted_or_the_reason_is_told() {
        match Counters::open(&[]) {
            Ok(mut counters) => {
                let before = counters.read();
                touch_fresh_memory();
                let values = counters.read().since(&before);
                let instructions = values.total(INSTRUCTIONS);
                assert!(instructions.is_none_or(|n| n > 1_000.0), "{values:?}");
                let share = values.total(STALLED).zip(values.total(CYCLES));
                let share = share.map(|(stalled, all)| stalled / all);
                assert!(share.is_none_or(|share| (0.0..=1.1).contains(&share)));
            }
            Err(why) => assert!(why.to_string().starts_with("not available here: "), "{why}"),
        }
    }

    #[test]
    fn what_the_system_says_becomes_a_reason() {
        let told = |errno: Errno, paranoid| reason(errno.into(), paranoid);
        let none = told(Errno::NOENT, Some(0));
        assert!(matches!(none, Unavailable::NoHardware { errno } if errno == "ENOENT"));
        let paranoid = told(Errno::ACCESS, Some(4));
        assert!(matches!(paranoid, Unavailable::Paranoid { level: 4 }));
        for level in [Some(2), Some(-1), None] {
            assert!(matches!(told(Errno::PERM, level), Unavailable::Forbidden));
        }
        assert!(matches!(
            told(Errno::MFILE, None),
            Unavailable::TooManyFiles
        ));
        assert!(matches!(told(Errno::INVAL, None), Unavailable::Other(_)));
    }

    #[test]
    fn every_processor_has_instructions_and_cycles_to_count() {
        for processor in [
            Processor::Zen3,
            Processor::Zen5,
            Processor::OtherAmd,
            Processor::IntelServer,
            Processor::Other,
        ] {
            let wanted = wanted(processor);
            let names: Vec<_> = wanted.iter().map(|wanted| wanted.name).collect();
            assert_eq!(names[..2], [INSTRUCTIONS, CYCLES], "{processor:?}");
            // AMD's cores have six counters, Intel's four beside those for instructions and cycles. The watchdog takes
            // one of AMD's, and of Intel's the one for cycles, which then needs one of the four.
            for group in 0..2 {
                let events = wanted.iter().filter(|wanted| wanted.group == group);
                let most = if processor == Processor::IntelServer {
                    4
                } else {
                    5
                };
                assert!(events.count() <= most, "{processor:?}: {names:?}");
            }
        }
    }
}
