//! `chiplet advise --history`: what was changed, by instance, service or node, and what it gained.

use std::fmt::Write as _;

use chiplet_advise::{GroupPath, History, Kind, Outcome, Record, State};
use jiff::Timestamp;

use super::options::Noted;

/// Of which changes is told; of all where nothing is named.
pub(super) struct Of<'a> {
    pub(super) groups: &'a [GroupPath],
    pub(super) service: Option<&'a str>,
    pub(super) node: Option<u32>,
}

impl Of<'_> {
    fn is_meant(&self, record: &Record) -> bool {
        let planned = &record.planned;
        (self.groups.is_empty()
            || self
                .groups
                .iter()
                .any(|group| planned.group.is_within(group)))
            && self
                .service
                .is_none_or(|service| planned.service.as_deref() == Some(service))
            && self.node.is_none_or(|node| planned.kind.node() == node)
    }
}

pub(super) fn run(noted: &Noted, of: &Of<'_>, json: bool) -> anyhow::Result<String> {
    noted.must_exist()?;
    let history = History::read(&noted.journal)?;
    let records: Vec<&Record> = history
        .records()
        .filter(|record| of.is_meant(record))
        .collect();
    if json {
        return Ok(serde_json::to_string_pretty(&records)? + "\n");
    }
    Ok(text(&records))
}

fn text(records: &[&Record]) -> String {
    if records.is_empty() {
        return "nothing of that was changed\n".to_owned();
    }
    let mut out = String::from(
        "   # when (UTC)            what                state        predicted  measured  group\n",
    );
    for record in records {
        let when = i64::try_from(record.unix_ms)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let when = when.map_or_else(String::new, |when| {
            when.strftime("%Y-%m-%d %H:%M:%S").to_string()
        });
        let planned = &record.planned;
        let what = match planned.kind {
            Kind::Bind { node } => format!("bind to node {node}"),
            Kind::Unbind { node } => format!("unbind from node {node}"),
        };
        let gain = |gain: Option<f64>| {
            gain.map_or("-".to_owned(), |gain| format!("{:.1} %", gain * 100.0))
        };
        let service = planned
            .service
            .as_ref()
            .map_or(String::new(), |service| format!(" ({service})"));
        let _ = writeln!(
            out,
            "{:>4} {when:<21} {what:<19} {:<12} {:>9} {:>9}  {}{service}",
            record.number,
            state(&record.state),
            gain(planned.predicted),
            gain(record.measured),
            planned.group
        );
    }
    out
}

fn state(state: &State) -> &'static str {
    match state {
        State::Done => "in force",
        State::Failed(_) => "refused",
        State::RolledBack(Outcome::Restored) => "rolled back",
        State::RolledBack(Outcome::Gone) => "group gone",
        State::RolledBack(Outcome::Replaced) => "group new",
        // The command ended before it could say.
        _ => "begun",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use chiplet_advise::{Actuator, Change, Host, Journal};

    use super::*;

    /// A machine with two nodes and one group below a folder.
    fn machine(root: &std::path::Path) {
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-3\n");
        write("sys/devices/system/node/node0/cpulist", "0-1\n");
        write("sys/devices/system/node/node1/cpulist", "2-3\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpuset memory\n");
        write("proc/self/cgroup", "0::/\n");
        for group in ["search-1", "search-2"] {
            write(&format!("sys/fs/cgroup/{group}/cpuset.cpus"), "\n");
        }
    }

    #[test]
    fn changes_are_found_by_instance_service_and_node() {
        let root = tempfile::tempdir().unwrap();
        machine(root.path());
        let host = Host::open(root.path()).unwrap();
        let noted = Noted {
            journal: root.path().join("journal"),
        };
        let missing = run(
            &noted,
            &Of {
                groups: &[],
                service: None,
                node: None,
            },
            false,
        )
        .unwrap_err();
        assert!(missing.to_string().contains("--journal"), "{missing}");
        let mut journal = Journal::open(&noted.journal).unwrap();
        let actuator = Actuator::new(root.path()).unwrap().dry(false);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (group, node, service) in [("/search-1", 0, "search"), ("/search-2", 1, "other")] {
            let mut change = Change::bind(group.parse().unwrap(), &host.nodes()[node]);
            change.service = Some(service.to_owned());
            change.predicted = Some(0.125);
            actuator.apply(&mut journal, &change, at).unwrap();
        }
        journal.measured(1, 0.07, at).unwrap();
        let lines = |groups: &[GroupPath], service, node| {
            let of = Of {
                groups,
                service,
                node,
            };
            run(&noted, &of, false).unwrap()
        };
        let all = lines(&[], None, None);
        assert_eq!(all.lines().count(), 3, "{all}");
        for expected in [
            "2027-01-15 08:00:00",
            "bind to node 0",
            "in force",
            "12.5 %",
            "7.0 %",
            "/search-1 (search)",
        ] {
            assert!(all.contains(expected), "{expected}: {all}");
        }
        assert!(!lines(&["/search-1".parse().unwrap()], None, None).contains("search-2"));
        assert!(!lines(&[], Some("other"), None).contains("search-1"));
        assert!(!lines(&[], None, Some(1)).contains("search-1"));
        assert_eq!(
            lines(&[], Some("nobody"), None),
            "nothing of that was changed\n"
        );
        let json: serde_json::Value = serde_json::from_str(
            &run(
                &noted,
                &Of {
                    groups: &[],
                    service: None,
                    node: Some(0),
                },
                true,
            )
            .unwrap(),
        )
        .unwrap();
        assert_eq!(json[0]["planned"]["group"], "/search-1");
        assert_eq!(json[0]["state"], "done");
        assert_eq!(json[0]["measured"], 0.07);
    }
}
