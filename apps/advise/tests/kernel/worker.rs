//! A service: memory that lies on node 0, and a thread that may run anywhere and reads it now and then.

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use chiplet_topology::pin;

/// Bytes of memory: far more than what the program has besides.
const BYTES: usize = 48 << 20;

/// Joins the group, so that its memory counts there, and lives until it is killed.
pub fn main(group: &str) {
    let folder = format!("/sys/fs/cgroup{group}");
    fs::write(format!("{folder}/cgroup.procs"), "0").expect("the group is there");
    let all = pin::current_affinity();
    let near =
        fs::read_to_string("/sys/devices/system/node/node0/cpulist").expect("there are nodes");
    let near: Vec<u32> = chiplet_topology::parse_list(&near)
        .expect("a list")
        .into_iter()
        .collect();
    pin::pin_current_thread(&near).expect("the node's cpus are there");
    let mut memory = vec![0_u8; BYTES];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    pin::pin_current_thread(&all).expect("they were allowed");
    fs::write(format!("/tmp/ready{}", group.replace('/', "-")), "").expect("there is room");
    loop {
        let sum: usize = memory
            .iter()
            .step_by(4096)
            .map(|byte| usize::from(*byte))
            .sum();
        black_box(sum);
        std::thread::sleep(Duration::from_millis(20));
    }
}
