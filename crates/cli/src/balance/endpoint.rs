//! `--listen`: the status for Prometheus, at `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use parking_lot::Mutex;

use super::status::Status;
use crate::stop::say;

/// The format that `prometheus-client` writes.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves on a thread of its own until the process ends, and returns where: port 0 is any that is free.
pub(super) fn serve(address: SocketAddr, status: Arc<Mutex<Status>>) -> anyhow::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind(address))
        .with_context(|| {
            format!("--listen {address}: nothing can listen there; name another port")
        })?;
    let address = listener.local_addr()?;
    let metrics = move || {
        let text = status.lock().metrics();
        async move { ([(CONTENT_TYPE, FORMAT)], text) }
    };
    let routes = Router::new().route("/metrics", get(metrics));
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            if let Err(error) = runtime.block_on(async { axum::serve(listener, routes).await }) {
                say(&format!("nobody serves /metrics any more: {error}"));
            }
        })?;
    Ok(address)
}
