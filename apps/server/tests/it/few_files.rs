//! A process that may open few files: it serves fewer connections, or says at start that it cannot.

use crate::common;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Duration;

use crate::common::process::{Process, command};

/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);

/// The server's command under a limit of open files.
fn limited(files: u32, data: &tempfile::TempDir, settings: &[(&str, &str)]) -> Command {
    let server = command(data.path(), settings);
    let mut limited = Command::new("sh");
    let script = format!("ulimit -n {files} && exec \"$0\"");
    limited.arg("-c").arg(script).arg(server.get_program());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stderr(std::process::Stdio::piped());
    limited
}

/// Strangers hold more connections than the process has files. Who has the key gets in all the same.
#[test]
fn strangers_cannot_take_all_files() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::start(limited(400, &data, &[("AUTH__API_KEY", "sesame")]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut strangers = Vec::new();
        for _ in 0..600 {
            let connect = tokio::net::TcpStream::connect(server.grpc);
            let Ok(Ok(stream)) = tokio::time::timeout(BOUND, connect).await else {
                break;
            };
            // It answers pings, and never ends by itself.
            strangers.push(tokio::spawn(async move {
                if let Ok((sender, connection)) = h2::client::handshake(stream).await {
                    let _ = connection.await;
                    drop(sender);
                }
            }));
        }
        for _ in 0..5 {
            let friend = common::config(server.grpc).api_key("sesame").build();
            let friend = friend.unwrap();
            friend.list_collections().await.unwrap();
        }
        let admin = server.admin;
        let alive = tokio::task::spawn_blocking(move || common::page(admin, "/livez"));
        assert_eq!(alive.await.unwrap().0, 200);
    });
}

#[test]
fn too_few_files_to_serve_stop_the_start() {
    let data = tempfile::tempdir().unwrap();
    let mut child = limited(60, &data, &[]).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    for line in lines.map_while(Result::ok) {
        log.push_str(&line);
        if line.contains("gRPC on ") {
            // It has started; it would not end by itself.
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success(), "{log}");
    assert!(log.contains("the process may open 60 files"), "{log}");
}
