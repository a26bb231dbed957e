//! Whether QEMU is there, and can load the plugin.

use std::process::Command;

/// Why the plugin cannot be loaded into `program`, if so; `package` is Debian's.
#[must_use]
pub fn lacks(program: &str, package: &str) -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some(
            "it emulates this very program, which has to be one for Linux on x86-64".into(),
        );
    }
    let said = |option| {
        let output = Command::new(program).arg(option).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (Ok(version), Ok(help)) = (said("--version"), said("--help")) else {
        return Some(format!("{program} is not installed (Debian: {package})"));
    };
    let known = ["version 7.", "version 8."]
        .iter()
        .any(|known| version.contains(known));
    if known && help.contains("-plugin ") {
        None
    } else {
        Some(format!("{program} has no plugins of version 1, as 7.2 has"))
    }
}
