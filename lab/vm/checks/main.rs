//! chiplet on a real kernel that shows several L3 domains, emulated.
//!
//! The test program is both sides. Run as a test, it boots a machine with itself. Run there as the first process, it
//! checks detection, pinning, placement and what happens when cpus are taken away (`guest.rs`).
//!
//! `cargo test -p chiplet-vm` boots 2 x 8 cores, `cargo test -p chiplet-vm --test vm -- large` 12 x 8. Without QEMU or
//! a kernel (`scripts/vm-kernel.sh`) it says so and does nothing.

#[cfg(target_os = "linux")]
mod copying;
#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod serving;

#[cfg(target_os = "linux")]
fn main() {
    if std::process::id() == 1 {
        guest::main();
    } else {
        host();
    }
}

#[cfg(target_os = "linux")]
fn host() {
    use chiplet_vm::{Boot, Image, Shape};

    let shape = if std::env::args().any(|argument| argument == "large") {
        Shape::LARGE
    } else {
        Shape::SMALL
    };
    let kernel = match chiplet_vm::kernel() {
        Ok(kernel) => kernel,
        Err(reason) => {
            println!("vm: skipped: {reason}");
            return;
        }
    };
    let Shape {
        domains,
        cores,
        nodes,
        ..
    } = shape;
    let outcome = Image::pack(&[]).and_then(|image| {
        let machine = Boot {
            shape: &shape,
            kernel: &kernel,
            image: &image,
            arguments: &[domains, cores, nodes].map(|number| number.to_string()),
            emulator: &[],
        };
        machine.run()
    });
    match outcome {
        Ok(outcome) => println!(
            "verify: a kernel that shows {domains} x {cores} cores | {} checks in the machine | {} s",
            guest::CHECKS,
            outcome.seconds
        ),
        Err(error) => {
            println!("vm: FAILED: {error}");
            std::process::exit(1);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("vm: skipped: it boots this very program, which has to be one for Linux");
}
