//! On which NUMA node memory lies: what `move_pages(2)` says of a sample of its pages, what `mbind(2)` asks for, and
//! moving pages to another node.
#![allow(
    unsafe_code,
    reason = "no library has these system calls; they are given arrays of addresses and of bits"
)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::path::Path;

use rustix::param::page_size;

/// So many pages are asked about at least, evenly spread: one for each so many bytes, up to so many.
const LEAST: usize = 64;
const EACH: usize = 2 << 20;
const MOST: usize = 4_096;

/// Only pages that no other process has mapped (`MPOL_MF_MOVE` of `linux/mempolicy.h`, which libc does not have).
const MOVE: i32 = 1 << 1;

/// So many pages are moved by one system call: 64 MiB of small ones, for which the arrays take 256 KiB.
const MOVED: usize = 16_384;

/// Nodes are below this (`MAX_NUMNODES` of the kernel's largest configuration).
const NODES: usize = 1_024;

/// Has pages of `addresses` that are first used from now on lie on `nodes`: on one as long as it has room, on several
/// in turn. Does nothing without nodes.
///
/// Preferred, not bound: where a node is full the kernel ends a process whose memory may lie nowhere else. So nothing
/// is refused either where this process may not ask, as in a container without `CAP_SYS_NICE`.
pub(crate) fn bind(addresses: Range<usize>, nodes: &[u32]) -> io::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let mut mask = [0_u64; NODES / 64];
    let known = Path::new("/sys/devices/system/node");
    for &node in nodes {
        // Of several nodes the kernel passes over those that are not there.
        if known.exists() && !known.join(format!("node{node}")).exists() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let Some(word) = mask.get_mut(node as usize / 64) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        *word |= 1 << (node % 64);
    }
    let mode = match mask.iter().map(|word| word.count_ones()).sum::<u32>() {
        1 => libc::MPOL_PREFERRED,
        _ => libc::MPOL_INTERLEAVE,
    };
    // SAFETY: the kernel reads `NODES` bits of the mask, which it takes for one less than it is told. It changes no
    // content: the range is the caller's to have, and what is used of it stays where it is.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            addresses.start,
            addresses.len(),
            mode,
            mask.as_ptr(),
            NODES + 1,
            0,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}

/// Bytes on each node, as far as they are in memory; none if the system does not say.
pub(crate) fn residence(addresses: Range<usize>) -> Vec<(u32, u64)> {
    let bytes = addresses.len();
    let wanted = bytes.div_ceil(EACH).clamp(LEAST, MOST);
    let status = sample(addresses, wanted).unwrap_or_default();
    let share = |count: usize| (bytes as u128 * count as u128 / status.len() as u128) as u64;
    let nodes = by_node(&status).into_iter();
    nodes.map(|(node, count)| (node, share(count))).collect()
}

/// Moves the pages of `addresses` that are in memory to `node`, and says how many bytes are there then. It begins and
/// ends at a page. What the kernel cannot move stays: where the node has no room, or other processes have the page
/// mapped too.
pub(crate) fn migrate(addresses: Range<usize>, node: u32) -> io::Result<usize> {
    let no_such_node = |_| io::Error::from_raw_os_error(libc::ENODEV);
    let target = i32::try_from(node).map_err(no_such_node)?;
    let page = page_size();
    let mut there = 0;
    for start in addresses.clone().step_by(MOVED * page) {
        let end = addresses.end.min(start + MOVED * page);
        let pages: Vec<*const c_void> = (start..end)
            .step_by(page)
            .map(|address| address as *const c_void)
            .collect();
        let targets = vec![target; pages.len()];
        let mut status = vec![-1_i32; pages.len()];
        // SAFETY: process 0 is this one. The kernel reads as many addresses and nodes as it is told, which is how long
        // both vectors are, and writes as many numbers; all three live until it returns. It does not follow the
        // addresses, and a page that moves keeps its address and its content for everybody who reads or writes it
        // meanwhile.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                targets.as_ptr(),
                status.as_mut_ptr(),
                MOVE,
            )
        };
        // More than 0 is a number of pages that stay.
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        there += status.iter().filter(|&&node| node == target).count();
    }
    Ok(there * page)
}

/// The node of each of up to `wanted` pages of `addresses`, evenly spread; a negative number where it is not in memory.
fn sample(addresses: Range<usize>, wanted: usize) -> Option<Vec<i32>> {
    let page = page_size();
    let pages = (addresses.start / page)..addresses.end.div_ceil(page);
    let count = pages.len().min(wanted);
    let sampled: Vec<*const c_void> = (0..count)
        .map(|at| ((pages.start + pages.len() * at / count) * page) as *const c_void)
        .collect();
    let mut status = vec![-1_i32; count];
    // SAFETY: process 0 is this one, and without target nodes no page is moved. The kernel reads `count` addresses,
    // which it does not follow but looks up, and writes as many numbers: both vectors are that long and live until it
    // returns.
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
    (result == 0).then_some(status)
}

/// How many of these pages each node has; negative ones are not in memory.
fn by_node(status: &[i32]) -> BTreeMap<u32, usize> {
    let mut pages = BTreeMap::new();
    for node in status.iter().filter_map(|&node| u32::try_from(node).ok()) {
        *pages.entry(node).or_default() += 1;
    }
    pages
}
