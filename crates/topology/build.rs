//! Says what to install when the feature `hwloc` is on and libhwloc is not there.
//!
//! The binding finds and links the library itself, and fails without a word on what to do. This script
//! has no dependencies, so that it is built and run before the binding's.

use std::process::{Command, Stdio};

/// hwloc 2.1 brought dies, hwloc 3 another interface.
const VERSIONS: [&str; 2] = ["hwloc >= 2.1", "hwloc < 3"];

fn main() {
    for variable in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let is_set = |name| std::env::var_os(name).is_some();
    // docs.rs links nothing, and a cross build's pkg-config is the binding's affair.
    let cross = std::env::var_os("HOST") != std::env::var_os("TARGET");
    if !is_set("CARGO_FEATURE_HWLOC") || is_set("DOCS_RS") || cross {
        return;
    }
    let Some(missing) = missing() else { return };
    for line in [
        &format!("the feature \"hwloc\" needs {missing}; one of these installs it:"),
        "  Debian, Ubuntu:  apt install libhwloc-dev libudev-dev pkg-config",
        "  Fedora:          dnf install hwloc-devel systemd-devel pkgconf-pkg-config",
        "  Arch:            pacman -S hwloc pkgconf",
        "  macOS:           brew install hwloc pkgconf",
        "or build without it, with the pure-Rust reader of Linux /sys: --no-default-features",
    ] {
        println!("cargo::error={line}");
    }
}

/// What is not there.
fn missing() -> Option<String> {
    if !pkg_config(&["--version"]) {
        return Some("the program pkg-config, to find libhwloc 2.1 or later".to_owned());
    }
    if !pkg_config(&["--exists", VERSIONS[0], VERSIONS[1]]) {
        return Some(
            "libhwloc 2.1 or later (and before 3), which pkg-config does not find".to_owned(),
        );
    }
    // The binding links what a static libhwloc would need, on Debian libudev, which its package
    // does not bring along.
    let wants_udev = output(&["--static", "--libs", "hwloc"]).contains("-ludev");
    if wants_udev && !pkg_config(&["--exists", "libudev"]) {
        return Some("libudev beside libhwloc, which pkg-config does not find".to_owned());
    }
    None
}

fn command() -> Command {
    Command::new(std::env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()))
}

fn pkg_config(arguments: &[&str]) -> bool {
    let quiet = command()
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn output(arguments: &[&str]) -> String {
    let output = command().args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}
