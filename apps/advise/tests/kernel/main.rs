//! `chiplet-advisor advise` and `chiplet-advisor balance` on a real kernel with two NUMA nodes and cgroup v2, emulated.
//!
//! The test program is three things. Run as a test, it boots a machine with itself and the command. As the first
//! process there, it checks (`guest.rs`). As `worker`, it is a service whose memory lies on the wrong node
//! (`worker.rs`).
//!
//! Without QEMU or a kernel (`scripts/vm-kernel.sh`) it says so and does nothing.

#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod prometheus;
#[cfg(target_os = "linux")]
mod worker;

/// The command, inside the machine.
#[cfg(target_os = "linux")]
const COMMAND: &str = "/bin/chiplet-advisor";

#[cfg(target_os = "linux")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        _ if std::process::id() == 1 => guest::main(),
        Some("worker") => worker::main(&arguments.next().expect("a group is named")),
        // What test runners ask for before they run anything.
        Some("--list") => {}
        _ => host(),
    }
}

#[cfg(target_os = "linux")]
fn host() {
    use chiplet_vm::{Boot, Image, Shape};

    let kernel = match chiplet_vm::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            println!("kernel: skipped: {reason}");
            return;
        }
    };
    let command = (COMMAND.into(), env!("CARGO_BIN_EXE_chiplet-advisor").into());
    let outcome = Image::pack(&[command]).and_then(|image| {
        let machine = Boot {
            shape: &Shape::SMALL,
            kernel: &kernel,
            image: &image,
            arguments: &[],
            emulator: &[],
        };
        machine.run()
    });
    match outcome {
        Ok(outcome) => println!(
            "verify: advice and bindings on a kernel with 2 nodes | {} checks in the machine | {} s",
            guest::CHECKS.len(),
            outcome.seconds
        ),
        Err(error) => {
            println!("kernel: FAILED: {error}");
            std::process::exit(1);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("kernel: skipped: it boots this very program, which has to be one for Linux");
}
