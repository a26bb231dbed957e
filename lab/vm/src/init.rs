//! What a program does as the machine's first process, besides its work.

use rustix::mount::{MountFlags, mount};
use rustix::system::RebootCommand;

/// The machine ends with this line on its console; anything else is a failure.
pub(crate) const PASSED: &str = "vm: all checks passed";

/// Mounts what the kernel shows, such as `proc` at `/proc`.
///
/// # Panics
/// If the kernel refuses.
pub fn mount_at(kind: &str, target: &str) {
    mount(kind, target, kind, MountFlags::empty(), None)
        .unwrap_or_else(|error| panic!("mount {target}: {error}"));
}

/// Says how many checks have failed, and turns the machine off.
pub fn end(failed: usize) {
    if failed == 0 {
        println!("{PASSED}");
    } else {
        println!("vm: {failed} checks failed");
    }
    rustix::fs::sync();
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
}
