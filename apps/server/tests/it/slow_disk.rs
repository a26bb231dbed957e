//! A disk that is slow when the server has to stop. The server's process is given an `fdatasync` that waits while a
//! file is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::line;
use crate::common::process::{Process, command};
use qdrant_client::Qdrant;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, PointStruct, UpsertPointsBuilder, VectorParamsBuilder,
};

const WAITING: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void hold(void) {
    const char *file = getenv("HOLD_DISK");
    while (file && access(file, F_OK) == 0) usleep(1000);
}
int fsync(int fd) { hold(); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { hold(); return syscall(SYS_fdatasync, fd); }
"#;

/// Builds the library that is loaded before the C library.
fn waiting(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("waiting.c"), folder.join("waiting.so"));
    std::fs::write(&source, WAITING).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.expect("a C compiler, as for Faiss").success());
    library
}

/// A server whose disk waits while the file `hold` is there, with three writes of 100 points that were acknowledged.
fn stopped_with(hold: bool, settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let held = folder.path().join("hold");
    let mut command = command(&folder.path().join("data"), settings);
    command
        .env("LD_PRELOAD", waiting(folder.path()))
        .env("HOLD_DISK", &held);
    let server = Process::start(command);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Qdrant::from_url(&format!("http://{}", server.grpc));
        let client = client.skip_compatibility_check().build().unwrap();
        let params = VectorParamsBuilder::new(4, Distance::Euclid);
        let create = CreateCollectionBuilder::new("line").vectors_config(params);
        client.create_collection(create).await.unwrap();
        if hold {
            std::fs::write(&held, b"").unwrap();
        }
        for write in 0..3_u64 {
            let points: Vec<PointStruct> = (0..100)
                .map(|id| PointStruct::new(write * 100 + id, line(4, id), [("n", 1_i64.into())]))
                .collect();
            let write = UpsertPointsBuilder::new("line", points);
            client.upsert_points(write).await.unwrap();
        }
    });
    server.terminate();
    let (status, log) = server.wait();
    (status.code(), log)
}

#[test]
fn acknowledged_writes_that_cannot_be_stored_in_time_are_told_of() {
    let (code, log) = stopped_with(
        true,
        &[("DRAIN_SECONDS", "1"), ("DRAIN_WRITES_SECONDS", "1")],
    );
    assert_eq!(code, Some(1), "{log}");
    let lost = log
        .lines()
        .find(|line| line.contains("are lost: they were"));
    let lost = lost.unwrap_or_else(|| panic!("no line tells of it: {log}"));
    for part in ["line", "writes=3", "points=300"] {
        assert!(lost.contains(part), "{lost}");
    }
    assert!(log.contains("lost_writes=3"), "{log}");
}

#[test]
fn with_time_enough_all_are_stored() {
    let (code, log) = stopped_with(false, &[("DRAIN_WRITES_SECONDS", "600")]);
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("are lost"), "{log}");
}
