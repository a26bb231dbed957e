//! `chiplet-advisor balance`: dry, applied, unbinding, watched.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::made_up::{MadeUp, chiplet, stderr, stdout};

/// The arguments of a run with both services, and these.
fn balance(more: &str) -> Vec<&str> {
    let services = "balance --service search=/search-* --service ads=/ads --lambda 1.7 --msr 0.4";
    services.split(' ').chain(more.split(' ')).collect()
}

/// Two searches whose memory lies on node 0, and one group of ads whose memory lies everywhere.
fn machine() -> MadeUp {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 900 << 20), (1, 100 << 20)]);
    machine.group("/search-2", &[(0, 950 << 20), (1, 50 << 20)]);
    machine.group("/ads", &[(0, 100 << 20), (1, 100 << 20)]);
    for group in ["/search-1", "/search-2", "/ads"] {
        machine.write(&format!("sys/fs/cgroup{group}/cpu.max"), "150000 100000\n");
    }
    machine
}

#[test]
fn a_dry_run_says_what_it_would_do_and_writes_nothing() {
    let machine = machine();
    let ran = chiplet(&machine, &balance("--every 0.2 --rounds 2"));
    let text = stdout(&ran);
    assert!(
        text.contains("would bind all 2 instances of search: saves about 8.8 %"),
        "{text}"
    );
    assert!(text.contains("cpuset.cpus: \"\" -> \"0-3\""), "{text}");
    assert!(
        text.contains("rounds: 2, the slowest decided in "),
        "{text}"
    );
    assert!(stderr(&ran).contains("a dry run"));
    for group in ["/search-1", "/search-2", "/ads"] {
        assert_eq!(machine.cpus(group), "\n");
    }
    assert!(!machine.journal().exists());
}

#[test]
fn a_service_is_bound_as_a_whole_and_let_go_by_the_journal() {
    let machine = machine();
    machine.write("sys/fs/cgroup/search-2/cpuset.cpus", "0-7\n");
    let text = stdout(&chiplet(
        &machine,
        &balance("--every 0.2 --apply --rounds 2"),
    ));
    assert!(text.contains("bind all 2 instances of search"), "{text}");
    assert!(
        text.contains("changes in force: 2 (chiplet-advisor balance --rollback"),
        "{text}"
    );
    let cpus = ["/search-1", "/search-2", "/ads"].map(|group| machine.cpus(group));
    assert_eq!(cpus, ["0-3\n", "0-3\n", "\n"]);
    let history = stdout(&chiplet(
        &machine,
        &["advise", "--history", "--service", "search"],
    ));
    assert_eq!(history.matches("bind to node 0").count(), 2, "{history}");
    stdout(&chiplet(&machine, &["balance", "--rollback"]));
    let cpus = ["/search-1", "/search-2"].map(|group| machine.cpus(group));
    assert_eq!(cpus, ["\n", "0-7\n"], "each as it was");
}

#[test]
fn history_is_told_by_instance_service_and_node() {
    let machine = machine();
    stdout(&chiplet(
        &machine,
        &balance("--every 0.2 --apply --rounds 1"),
    ));
    let history = |of: &str| {
        let words = format!("advise --history {of}");
        stdout(&chiplet(
            &machine,
            &words.split_whitespace().collect::<Vec<_>>(),
        ))
    };
    let all = history("");
    assert_eq!(all.lines().count(), 3, "a head, and two instances: {all}");
    for part in ["bind to node 0", "in force", "8.3 %", "9.3 %", "(search)"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let one = history("--cgroup /search-1");
    assert!(
        one.contains("/search-1") && !one.contains("/search-2"),
        "{one}"
    );
    assert_eq!(history("--service search"), all);
    assert_eq!(history("--node 0"), all);
    for nothing in ["--service ads", "--node 1", "--cgroup /search"] {
        assert_eq!(history(nothing), "nothing of that was changed\n");
    }
    let told: serde_json::Value = serde_json::from_str(&history("--json")).unwrap();
    assert_eq!(told[0]["state"], "done");
    assert_eq!(told[0]["planned"]["kind"]["bind"]["node"], 0);
}

#[test]
fn a_busy_node_loses_its_least_busy_instance_first() {
    let machine = machine();
    for group in ["/search-1", "/search-2"] {
        for (file, text) in [
            ("cpuset.cpus", "0-3\n"),
            ("cpuset.cpus.effective", "0-3\n"),
            ("cpu.max", "100000 100000\n"),
        ] {
            machine.write(&format!("sys/fs/cgroup{group}/{file}"), text);
        }
    }
    machine.is_busy(0, 95);
    let child = machine.spawn(&balance("--every 0.8 --apply --strategy a --rounds 1"));
    // Both want more than their quota within the round, search-2 less of it.
    std::thread::sleep(Duration::from_millis(400));
    for (group, used) in [("/search-1", 4_000_000), ("/search-2", 1_500_000)] {
        let stat = format!("usage_usec {used}\nthrottled_usec 0\n");
        machine.write(&format!("sys/fs/cgroup{group}/cpu.stat"), &stat);
    }
    let ran = child.wait_with_output().unwrap();
    let text = stdout(&ran);
    assert!(
        text.contains("unbind /search-2 (search) from node 0, which is too busy"),
        "{text}"
    );
    assert_eq!(machine.cpus("/search-2"), "\n");
    assert_eq!(machine.cpus("/search-1"), "0-3\n");
}

#[test]
fn a_refused_change_leaves_no_half_of_a_service_bound() {
    let machine = machine();
    let cpus = machine.file("/search-2", "cpuset.cpus");
    std::fs::remove_file(&cpus).unwrap();
    let text = stdout(&chiplet(
        &machine,
        &balance("--every 0.2 --apply --rounds 1"),
    ));
    assert!(
        text.contains("refused: /search-2 has no cpuset.cpus"),
        "{text}"
    );
    assert_eq!(machine.cpus("/search-1"), "\n");
}

#[test]
fn prometheus_reads_the_last_round() {
    let machine = machine();
    let mut child = machine.spawn(&balance("--every 0.2 --listen 127.0.0.1:0 --rounds 400"));
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let address = lines.find_map(|line| {
        let rest = line.split_once("http://")?.1;
        Some(rest.strip_suffix("/metrics")?.to_owned())
    });
    let address = address.expect("it says where");
    let asked = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    // More than are served at a time say nothing.
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let mut text = asked();
    drop(silent);
    while !text.contains("instance_predicted_gain_ratio{") {
        std::thread::sleep(Duration::from_millis(50));
        text = asked();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        text.contains("content-type: application/openmetrics-text"),
        "{text}"
    );
    assert!(
        text.contains("chiplet_balance_instance_msr_ratio{group=\"/ads\",service=\"ads\"} 0.4"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("# EOF"), "{text}");
}

#[test]
fn a_narrower_cpuset_stays_narrower() {
    let machine = machine();
    machine.write("sys/fs/cgroup/search-1/cpuset.cpus", "2-5\n");
    stdout(&chiplet(
        &machine,
        &balance("--every 0.2 --apply --rounds 1"),
    ));
    assert_eq!(machine.cpus("/search-1"), "2-3\n");
    stdout(&chiplet(&machine, &["balance", "--rollback"]));
    assert_eq!(machine.cpus("/search-1"), "2-5\n");
}

#[test]
fn what_is_not_bound_is_told_with_the_reason() {
    let machine = machine();
    let args = "balance --service search=/search-* --every 0.2 --rounds 2 --lambda 1.7";
    let ran = chiplet(&machine, &args.split(' ').collect::<Vec<_>>());
    let told = stderr(&ran);
    let why = "search is not bound: cannot predict; no share of stalled cycles";
    assert_eq!(told.matches(why).count(), 1, "{told}");
}

#[test]
fn a_reader_that_goes_away_leaves_no_half_of_a_service_bound() {
    let machine = machine();
    let mut child = machine.spawn(&balance("--every 0.2 --apply --rounds 3"));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first line of the announcement, and then nobody reads.
    lines.next();
    drop(lines);
    child.wait().unwrap();
    assert_eq!(machine.cpus("/search-1"), machine.cpus("/search-2"));
}

/// A file that may not grow stands for a disk that is full.
#[test]
fn a_full_disk_keeps_no_group_from_being_restored() {
    let machine = machine();
    stdout(&chiplet(
        &machine,
        &balance("--every 0.2 --apply --rounds 1"),
    ));
    assert_eq!(machine.cpus("/search-1"), "0-3\n");
    let rollback = machine.command(&["balance", "--rollback"]);
    let words: Vec<_> = std::iter::once(rollback.get_program())
        .chain(rollback.get_args())
        .collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]);
    let ran = shell.args(&words).output().unwrap();
    let cpus = ["/search-1", "/search-2"].map(|group| machine.cpus(group));
    assert_eq!(cpus, ["\n", "\n"], "{}", stderr(&ran));
    assert!(
        stderr(&ran).contains("could not be noted"),
        "{}",
        stderr(&ran)
    );
    // Afterwards there is room again.
    stdout(&chiplet(&machine, &["balance", "--rollback"]));
    let last = stdout(&chiplet(&machine, &["balance", "--rollback"]));
    assert!(last.contains("no change is in force"), "{last}");
}
