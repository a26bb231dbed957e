//! The admin port: health for orchestrators, metrics for Prometheus, and a page for people.

pub(crate) mod metrics;
mod others;
mod process;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;

use crate::api::Api;
use crate::server::Readiness;
use metrics::{Meters, Remaps};
use others::Others;

/// What the admin port shows.
pub(crate) struct Admin {
    pub(crate) api: Arc<Api>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) remaps: Arc<Remaps>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) grpc_addr: SocketAddr,
    pub(crate) live: state::Live,
    /// Locked before a snapshot is taken for it, so that snapshots come in their order.
    pub(crate) others: Mutex<Others>,
}

/// The page loads nothing from elsewhere and runs no script but its own.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Admin {
    pub(crate) fn new(
        api: Arc<Api>,
        remaps: Arc<Remaps>,
        readiness: Arc<Readiness>,
        grpc_addr: SocketAddr,
    ) -> Self {
        Self {
            meters: Arc::clone(&api.meters),
            api,
            remaps,
            readiness,
            grpc_addr,
            live: state::Live::default(),
            others: Mutex::default(),
        }
    }
}

pub(crate) fn routes(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/state", get(state))
        .route(
            "/",
            get(|| file("text/html; charset=utf-8", include_str!("page/index.html"))),
        )
        .route(
            "/page.css",
            get(|| file("text/css; charset=utf-8", include_str!("page/page.css"))),
        )
        .route(
            "/page.js",
            get(|| {
                file(
                    "text/javascript; charset=utf-8",
                    include_str!("page/page.js"),
                )
            }),
        )
        .with_state(admin)
}

async fn file(kind: &'static str, content: &'static str) -> Response {
    with_headers(kind, content.into_response())
}

fn with_headers(kind: &'static str, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

async fn ready(State(admin): State<Arc<Admin>>) -> (StatusCode, String) {
    match admin.readiness.missing() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// A snapshot of many tables takes milliseconds, so it is not taken on a thread that answers requests.
async fn off_the_network<T: Send + 'static>(
    code: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusCode> {
    tokio::task::spawn_blocking(code)
        .await
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Result<Response, StatusCode> {
    let text = off_the_network(move || metrics::text(&admin)).await?;
    Ok(with_headers(
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        text.into_response(),
    ))
}

async fn state(State(admin): State<Arc<Admin>>) -> Result<Response, StatusCode> {
    let state = off_the_network(move || state::now(&admin)).await?;
    Ok(with_headers(
        "application/json",
        axum::Json(state).into_response(),
    ))
}
