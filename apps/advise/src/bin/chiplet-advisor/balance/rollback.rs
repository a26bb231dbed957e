//! `--rollback`: what the journal has noted is undone, also after a kill.

use std::fmt::Write as _;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use chiplet_advise::{Actuator, ApplyError, GroupPath, Restored, Which};

use crate::advise::options::{Machine, Noted};

pub(super) fn run(
    machine: &Machine,
    noted: &Noted,
    group: Option<&GroupPath>,
    over_others: bool,
) -> anyhow::Result<String> {
    noted.must_exist()?;
    let journal = noted.open(machine);
    let mut journal = journal.context(
        "nothing was undone; where the journal cannot be written, name a copy of it by --journal FILE",
    )?;
    let actuator = Actuator::new(&machine.sysfs)?.dry(false);
    let which = group.map_or(Which::All, |group| Which::Group(group.clone()));
    let now = SystemTime::now();
    let restorations = match over_others {
        true => actuator.rollback_over(&mut journal, &which, now)?,
        false => actuator.rollback(&mut journal, &which, now)?,
    };
    let (mut out, mut left) = (String::new(), String::new());
    for restoration in &restorations {
        let group = &restoration.group;
        let _ = match &restoration.result {
            Ok(Restored::Files(files)) => match files[..] {
                [] => writeln!(out, "{group}: was as before"),
                _ => {
                    let names: Vec<&str> = files.iter().map(|file| file.name()).collect();
                    writeln!(out, "{group}: restored {}", names.join(" and "))
                }
            },
            Ok(Restored::Gone) => writeln!(out, "{group}: has ended"),
            Ok(Restored::Replaced) => {
                writeln!(out, "{group}: another group has this name now; left alone")
            }
            Ok(Restored::SetByOthers { file, holds }) => writeln!(
                left,
                "{group}: somebody else has set {} to {:?}; left alone (--over-others sets it back)",
                file.name(),
                holds.trim()
            ),
            Ok(_) => writeln!(out, "{group}: done"),
            Err(error @ ApplyError::OtherView { .. }) => writeln!(
                left,
                "{error}; if that is gone, --over-others closes the change here"
            ),
            Err(error) => writeln!(left, "{group}: {error}"),
        };
    }
    if restorations.is_empty() {
        out.push_str("no change is in force\n");
    }
    if !left.is_empty() {
        bail!(
            "{out}not restored, and still in the journal:\n{}",
            left.trim_end()
        );
    }
    Ok(out)
}
