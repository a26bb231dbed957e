//! How the kernel is set where that changes what is measured: words of its command line, SMT, schedulers.
//!
//! Nothing here names a host, a disk or a path: of the command line only words that [`MATTERS`] lists are kept.

use std::fs;
use std::path::Path;

use super::report::KernelSettings;

/// Parameters that change how threads run or what memory costs (Linux,
/// `Documentation/admin-guide/kernel-parameters.txt`). None of them takes a path or a name of the host.
const MATTERS: [&str; 44] = [
    "amd_iommu",
    "amd_pstate",
    "clocksource",
    "cpufreq.default_governor",
    "cpuidle.governor",
    "cpuidle.off",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "l1tf",
    "maxcpus",
    "mds",
    "mem",
    "mitigations",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nopti",
    "nosmt",
    "nospectre_v1",
    "nospectre_v2",
    "nowatchdog",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "pti",
    "rcu_nocbs",
    "retbleed",
    "skew_tick",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_v2",
    "transparent_hugepage",
];

/// Reads the files below `root`, of the kernel with this release.
pub(super) fn settings(root: &Path, release: &str) -> KernelSettings {
    let text = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned())
    };
    KernelSettings {
        command_line: text("proc/cmdline").map(|line| words(&line)),
        smt_control: text("sys/devices/system/cpu/smt/control"),
        sched_ext: text("sys/kernel/sched_ext/state").map(|state| {
            match text("sys/kernel/sched_ext/root/ops") {
                Some(ops) if state == "enabled" => format!("enabled: {ops}"),
                _ => state,
            }
        }),
        cache_aware_scheduling: Some(cache_aware(root, release).to_owned()),
    }
}

/// The words of a command line that matter, in their order; those behind `--` are not the kernel's.
fn words(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| *word != "--");
    let words = words.filter(|word| {
        let name = word.split('=').next().unwrap_or_default();
        // To the kernel, dashes in a name are underscores.
        MATTERS.contains(&&*name.replace('-', "_"))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Linux' own scheduling by cache, of 7.2 and later: `CONFIG_SCHED_CACHE` (`init/Kconfig`) and the switch
/// `llc_balancing/enabled` of debugfs (`kernel/sched/debug.c`), which root alone can read.
fn cache_aware(root: &Path, release: &str) -> &'static str {
    let folder = root.join("sys/kernel/debug/sched");
    if let Ok(switch) = fs::read_to_string(folder.join("llc_balancing/enabled")) {
        return match switch.trim() {
            "0" => "off",
            _ => "on",
        };
    }
    if fs::metadata(folder).is_ok() {
        return "the kernel has none";
    }
    let config = fs::read_to_string(root.join(format!("boot/config-{release}")));
    match config.map(|config| config.lines().any(|line| line == "CONFIG_SCHED_CACHE=y")) {
        Ok(true) => "in the kernel; not readable whether it is on",
        Ok(false) => "the kernel has none",
        Err(_) => "not readable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_command_line_only_what_matters_is_kept() {
        let line = "BOOT_IMAGE=/vmlinuz-6.8 root=UUID=1b2c ro quiet mitigations=off isolcpus=domain,2-7 nohz-full=2-7 \
                    ip=10.0.0.7::::somehost nosmt console=ttyS0 amd_pstate=active -- --name numa=off";
        assert_eq!(
            words(line),
            "mitigations=off isolcpus=domain,2-7 nohz-full=2-7 nosmt amd_pstate=active"
        );
        assert_eq!(words("ro quiet"), "");
    }

    /// A folder with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn scheduling_by_cache_is_read_from_its_switch_or_from_the_configuration() {
        let told = |files: &[(&str, &str)]| cache_aware(machine(files).path(), "7.2.0");
        let switch = "sys/kernel/debug/sched/llc_balancing/enabled";
        assert_eq!(told(&[(switch, "1\n")]), "on");
        assert_eq!(told(&[(switch, "0\n")]), "off");
        assert_eq!(
            told(&[("sys/kernel/debug/sched/features", "")]),
            "the kernel has none"
        );
        let config = |text| told(&[("boot/config-7.2.0", text)]);
        assert!(config("CONFIG_SMP=y\nCONFIG_SCHED_CACHE=y\n").starts_with("in the kernel"));
        assert_eq!(
            config("# CONFIG_SCHED_CACHE is not set\n"),
            "the kernel has none"
        );
        assert_eq!(told(&[("boot/config-6.1.0", "")]), "not readable");
    }

    #[test]
    fn a_scheduler_is_named_while_it_runs() {
        let read = |files: &[(&str, &str)]| settings(machine(files).path(), "7.2.0");
        let ops = ("sys/kernel/sched_ext/root/ops", "lavd_1.0\n");
        let state = "sys/kernel/sched_ext/state";
        let running = read(&[(state, "enabled\n"), ops]);
        assert_eq!(running.sched_ext.as_deref(), Some("enabled: lavd_1.0"));
        let off = read(&[(state, "disabled\n")]);
        assert_eq!(off.sched_ext.as_deref(), Some("disabled"));
        let none = read(&[("sys/devices/system/cpu/smt/control", "forceoff\n")]);
        assert_eq!(none.sched_ext, None);
        assert_eq!(none.smt_control.as_deref(), Some("forceoff"));
        assert_eq!(none.command_line, None);
    }
}
