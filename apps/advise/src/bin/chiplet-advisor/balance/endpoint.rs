//! `--listen`: the status for Prometheus, at `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::status::Status;

/// The format that `prometheus-client` writes.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Connections at a time. Further ones wait in the kernel.
const MOST: usize = 16;

/// How long a connection may take for its one request. So who connects and says nothing keeps nobody out for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long nobody is accepted after the system has refused a connection: files may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves on a thread of its own until the process ends, and returns where: port 0 is any that is free.
pub(super) fn serve(address: SocketAddr, status: Arc<Mutex<Status>>) -> anyhow::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = runtime
        .block_on(TcpListener::bind(address))
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
        .spawn(move || runtime.block_on(accept(listener, routes)))?;
    Ok(address)
}

async fn accept(listener: TcpListener, routes: Router) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let routes = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            let served = http
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), routes);
            // Who went away, or took too long, is not missed.
            let _ = tokio::time::timeout(PATIENCE, served).await;
            drop(place);
        });
    }
}
