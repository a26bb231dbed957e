//! Pinning on Linux, with masks as long as the machine needs.
//!
//! The fixed-size sets of libc (`cpu_set_t`) and of rustix end at cpu 1023, and the kernel's own mask may be longer.
//! The calls take any length: the kernel ignores what lies beyond its mask when one is set, and wants at least its
//! length when one is read.
#![allow(
    unsafe_code,
    reason = "no safe binding passes masks of more than 1,024 cpus"
)]

use super::{PinError, refused};
use crate::cpuset::{self, CpuSet, MAX_CPU};
use libc::{c_ulong, cpu_set_t, pid_t};
use std::io;

/// A thread as the kernel numbers it.
pub(super) type Number = pid_t;

/// The kernel's word for the calling thread.
const THIS: pid_t = 0;
const WORD: usize = c_ulong::BITS as usize;
/// What almost every kernel is built for or below.
const USUAL: usize = 1024;
/// Room for any kernel's mask.
const MOST: usize = MAX_CPU as usize + 1;

pub(super) fn this_thread() -> Option<Number> {
    Some(rustix::thread::gettid().as_raw_nonzero().get())
}

/// The one that the process began with; the kernel numbers the process as it.
pub(super) fn main_thread() -> Option<Number> {
    pid_t::try_from(std::process::id()).ok()
}

pub(super) fn current_cpu() -> Option<u32> {
    u32::try_from(rustix::thread::sched_getcpu()).ok()
}

/// Of this thread, or another of this process.
pub(super) fn pin(thread: Option<Number>, cpus: &[u32]) -> Result<Vec<u32>, PinError> {
    if let Some(&cpu) = cpus.iter().find(|&&cpu| cpu > MAX_CPU) {
        return Err(PinError::TooLarge { cpu, max: MAX_CPU });
    }
    let highest = cpus.iter().copied().max().unwrap_or(0) as usize;
    let mut mask = vec![0; (highest + 1).max(USUAL).div_ceil(WORD)];
    for &cpu in cpus {
        mask[cpu as usize / WORD] |= 1 << (cpu as usize % WORD);
    }
    set(thread, &mask).map_err(|error| refused(cpus, error))?;
    affinity(thread)
        .map(|granted| granted.into_iter().collect())
        .ok_or_else(|| refused(cpus, "the mask cannot be read back"))
}

#[cfg(feature = "hwloc")]
pub(super) fn tells_masks() -> bool {
    asked(None).is_some()
}

/// The mask by the system call, or, where that is refused (a sandbox may), as `/proc` tells it.
pub(super) fn affinity(thread: Option<Number>) -> Option<CpuSet> {
    asked(thread).or_else(|| told(thread))
}

fn asked(thread: Option<Number>) -> Option<CpuSet> {
    let mut cpus = USUAL;
    while cpus <= MOST {
        if let Some(mask) = get(thread, cpus).ok()? {
            return Some(members(&mask));
        }
        cpus *= 2;
    }
    None
}

fn told(thread: Option<Number>) -> Option<CpuSet> {
    let path = match thread {
        None => "/proc/thread-self/status".to_owned(),
        Some(thread) => format!("/proc/self/task/{thread}/status"),
    };
    let status = std::fs::read_to_string(path).ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpuset::parse_list(list).ok()
}

fn members(mask: &[c_ulong]) -> CpuSet {
    let bits = |(at, &word): (usize, &c_ulong)| {
        let set = (0..WORD).filter(move |bit| word >> bit & 1 == 1);
        set.map(move |bit| (at * WORD + bit) as u32)
    };
    mask.iter().enumerate().flat_map(bits).collect()
}

fn set(thread: Option<Number>, mask: &[c_ulong]) -> io::Result<()> {
    let (bytes, words) = (size_of_val(mask), mask.as_ptr());
    // SAFETY: the kernel reads `bytes` bytes from `words`, which are those of `mask`, and keeps no pointer. The type of
    // the argument is not what is read: the call takes the length.
    let done = unsafe {
        libc::sched_setaffinity(thread.unwrap_or(THIS), bytes, words.cast::<cpu_set_t>())
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The mask, or `None` if it is longer than `cpus`.
fn get(thread: Option<Number>, cpus: usize) -> io::Result<Option<Vec<c_ulong>>> {
    let mut mask: Vec<c_ulong> = vec![0; cpus.div_ceil(WORD)];
    let (bytes, words) = (size_of_val(&mask[..]), mask.as_mut_ptr());
    // SAFETY: at most `bytes` bytes are written to `words`, which are those of `mask`, borrowed by nobody else; any
    // bits make a number. The type of the argument is not what is written: the call takes the length.
    let done = unsafe {
        libc::sched_getaffinity(thread.unwrap_or(THIS), bytes, words.cast::<cpu_set_t>())
    };
    if done == 0 {
        return Ok(Some(mask));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL) => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_its_members_wherever_they_are() {
        let mut mask = vec![0; 2048 / WORD];
        mask[1023 / WORD] |= 1 << (1023 % WORD);
        mask[2047 / WORD] |= 1 << (2047 % WORD);
        mask[0] |= 5;
        assert_eq!(members(&mask), [0, 2, 1023, 2047].into());
    }

    #[test]
    fn a_mask_that_is_too_short_is_told_from_one_that_is_refused() {
        // No kernel has a mask of fewer bits than a word, and some have just one: then it fits.
        assert!(get(None, 1).is_ok());
        assert!(get(None, MOST).unwrap().is_some());
        let error = get(Some(pid_t::MAX), USUAL).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
