//! How many files the process may have open: each connection is one, and each collection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// What is open besides: the ports, the admin port's connections, the lock, logs, the runtime's own.
const OTHERS: u64 = 512;

/// Takes as many as the process may have; by custom it starts with fewer, for the sake of programs that use `select`.
/// Warns if they are too few for the server's limits.
pub(crate) fn raise_limit(limits: &Limits) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            current
        }
    };
    let wanted = wanted(limits);
    if let Some(files) = files.filter(|&files| files < wanted) {
        tracing::warn!(
            files,
            wanted,
            "the process may open fewer files than limits.connections and limits.collections together need: raise the \
             hard limit (ulimit -Hn, LimitNOFILE=), or lower these"
        );
    }
}

fn wanted(limits: &Limits) -> u64 {
    let connections = limits.connections as u64;
    connections
        .saturating_add(limits.collections as u64)
        .saturating_add(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_collections_are_files() {
        let limits = |connections| Limits {
            connections,
            collections: 200,
            ..Limits::default()
        };
        assert!((1_201..3_000).contains(&wanted(&limits(1_000))));
        assert_eq!(wanted(&limits(usize::MAX)), u64::MAX);
    }
}
