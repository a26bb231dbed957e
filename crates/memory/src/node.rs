//! Which NUMA node holds memory: what `move_pages(2)` says of a sample of its pages.
#![allow(
    unsafe_code,
    reason = "no library has this system call; it is given an array of addresses and one to write to"
)]

use std::ffi::c_void;
use std::ops::Range;

use rustix::param::page_size;

/// So many pages are asked about, evenly spread.
const SAMPLE: usize = 64;

/// The node with at least three quarters of those of the sampled pages of `addresses` that are in memory. `None` if there
/// is no such node, nothing is in memory, or the system does not say: containers often may not ask (`CAP_SYS_NICE`).
pub(crate) fn node_of(addresses: Range<usize>) -> Option<u32> {
    let page = page_size();
    let pages = (addresses.start / page)..addresses.end.div_ceil(page);
    let count = pages.len().min(SAMPLE);
    let sampled: Vec<*const c_void> = (0..count)
        .map(|at| ((pages.start + pages.len() * at / count) * page) as *const c_void)
        .collect();
    let mut status = vec![-1_i32; count];
    // SAFETY: process 0 is this one, and without target nodes no page is moved. The kernel reads `count` addresses, which it
    // does not follow but looks up, and writes as many numbers: both vectors are that long and live until it returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            count,
            sampled.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    (result == 0).then(|| most(&status)).flatten()
}

/// The node of at least three quarters of these pages; negative ones are not in memory.
fn most(status: &[i32]) -> Option<u32> {
    let nodes: Vec<u32> = status
        .iter()
        .filter_map(|&node| u32::try_from(node).ok())
        .collect();
    let count = |node: u32| nodes.iter().filter(|&&other| other == node).count();
    let node = nodes.iter().copied().max_by_key(|&node| count(node))?;
    (4 * count(node) >= 3 * nodes.len()).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_what_is_in_memory_decide() {
        assert_eq!(most(&[1, 1, 0, 1]), Some(1));
        assert_eq!(most(&[1, 1, 0, 0]), None);
        assert_eq!(most(&[-2, -14, 2]), Some(2));
        assert_eq!(most(&[-2, -2]), None);
        assert_eq!(most(&[]), None);
    }
}
