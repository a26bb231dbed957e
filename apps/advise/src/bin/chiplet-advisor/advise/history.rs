//! `chiplet-advisor advise --history`: what was changed, by instance, service or node, and what it gained.

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
