//! A group's changes taken back by the command that made them: all of them, or it is told why not.

use std::time::SystemTime;

use chiplet_advise::{Actuator, ApplyError, CpusetFile, GroupPath, Journal, Restored, Which};

/// Why a change was not made, or not taken back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(
        "somebody else has set the cpus of {group} to {:?} since, so it was left alone; chiplet-advisor balance --rollback \
         --over-others --cgroup {} sets them back",
        holds.trim(),
        group.quoted()
    )]
    SetByOthers { group: GroupPath, holds: String },
    #[error("{0} has ended")]
    Ended(GroupPath),
}

/// Takes back what is in force of a group. The files that were written: none if they were as before.
pub(crate) fn undo(
    actuator: &Actuator,
    journal: &mut Journal,
    group: &GroupPath,
) -> Result<Vec<CpusetFile>, Refused> {
    let which = Which::Group(group.clone());
    let mut written = Vec::new();
    for restoration in actuator.rollback(journal, &which, SystemTime::now())? {
        match restoration.result? {
            Restored::Files(files) => written.extend(files),
            Restored::SetByOthers { holds, .. } => {
                return Err(Refused::SetByOthers {
                    group: group.clone(),
                    holds,
                });
            }
            _ => return Err(Refused::Ended(group.clone())),
        }
    }
    Ok(written)
}
