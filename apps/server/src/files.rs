//! How many files the process may have open: each connection is one, and each collection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open besides: the ports, the lock, logs, the runtime's own, a file that is read.
const OWN: u64 = 64;

/// As few as it is of use to start with.
const LEAST: u64 = 32;

/// Connections to the admin port at a time.
const ADMIN_CONNECTIONS: u64 = 256;

/// Takes as many as the process may have; by custom it starts with fewer, for the sake of programs that use `select`.
/// `None` is no limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            current
        }
    }
}

/// Who may have how many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) connections: usize,
    pub(crate) admin_connections: usize,
}

/// The process may open too few files.
#[derive(Debug, thiserror::Error)]
#[error(
    "the process may open {files} files, and needs {needed} for itself, its {collections} collections and a few connections: \
     raise the hard limit (ulimit -Hn, LimitNOFILE=)"
)]
pub(crate) struct TooFew {
    files: u64,
    needed: u64,
    collections: usize,
}

/// Divides `files` between `connections`, the admin port and the collections that are there; an eighth of what is left
/// is for new collections.
pub(crate) fn allot(
    files: Option<u64>,
    connections: usize,
    collections: usize,
) -> Result<Room, TooFew> {
    let files = files.unwrap_or(u64::MAX);
    let taken = OWN + collections as u64;
    let Some(left) = files.checked_sub(taken).filter(|left| *left >= LEAST) else {
        return Err(TooFew {
            files,
            needed: taken + LEAST,
            collections,
        });
    };
    let admin = (left / 8).min(ADMIN_CONNECTIONS);
    let most = usize::try_from(left - left / 8 - admin).unwrap_or(usize::MAX);
    Ok(Room {
        connections: connections.min(most),
        // At most 256.
        admin_connections: admin as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_enough_for_all_that_may_be_open() {
        for files in [100, 400, 1_024, 4_096, 1 << 20] {
            for collections in [0, 1, 200, 5_000] {
                let Ok(room) = allot(Some(files), 20_000, collections) else {
                    assert!(files < OWN + LEAST + collections as u64);
                    continue;
                };
                let open = room.connections + room.admin_connections + collections;
                assert!(
                    open as u64 + OWN <= files,
                    "{files}, {collections}: {room:?}"
                );
                assert!(room.connections >= 20 && room.admin_connections >= 4);
            }
        }
        let plenty = Room {
            connections: 20_000,
            admin_connections: 256,
        };
        assert_eq!(allot(None, 20_000, 10_000).unwrap(), plenty);
        assert_eq!(allot(Some(1 << 20), 20_000, 10_000).unwrap(), plenty);
        let error = allot(Some(120), 20_000, 200).unwrap_err().to_string();
        assert!(
            error.contains("120 files") && error.contains("LimitNOFILE"),
            "{error}"
        );
    }
}
