//! The admin port: health for orchestrators, metrics for Prometheus, and a page for people.

pub(crate) mod metrics;
mod others;
mod process;
mod state;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

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
    /// Names by which it may be asked.
    hosts: Vec<String>,
    /// A place for the snapshot that is being taken: one at a time, so that those who look keep no threads from the
    /// writes. Those who wait are connections, which are bounded.
    snapshot: Arc<Semaphore>,
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
        hosts: &str,
    ) -> Self {
        Self {
            meters: Arc::clone(&api.meters),
            api,
            remaps,
            readiness,
            grpc_addr,
            live: state::Live::default(),
            others: Mutex::default(),
            hosts: hosts
                .split(',')
                .map(|host| host.trim().to_ascii_lowercase())
                .collect(),
            snapshot: Arc::new(Semaphore::new(1)),
        }
    }
}

/// Whether the port may be asked by this name. A web page whose own name was made to point here asks by that name: what
/// is not an address, `localhost` or one of `hosts` may be such.
fn is_asked_by(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        // Browsers always say it.
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let name = name.to_ascii_lowercase();
    address.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || (!name.is_empty() && hosts.contains(&name))
}

async fn check_host(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    if is_asked_by(request.headers(), &admin.hosts) {
        return next.run(request).await;
    }
    let why = "the admin port is asked by address, as localhost, or by a name in admin_hosts\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

pub(crate) fn routes(admin: Arc<Admin>) -> Router {
    let check_host = from_fn_with_state(Arc::clone(&admin), check_host);
    // Probes may ask by any name: they are told next to nothing.
    Router::new()
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
        .layer(check_host)
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
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
        None => {
            // The others are served, so it is ready all the same.
            let troubles = admin.api.catalog.troubles();
            let unserved = match troubles.damaged + troubles.no_memory {
                0 => String::new(),
                some => format!("{some} collections cannot be served, the log says why\n"),
            };
            (StatusCode::OK, format!("ready\n{unserved}"))
        }
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// A snapshot of many tables takes milliseconds, so it is not taken on a thread that answers requests.
async fn off_the_network<T: Send + 'static>(
    admin: Arc<Admin>,
    code: impl FnOnce(&Admin) -> T + Send + 'static,
) -> Result<T, StatusCode> {
    let gone = |_| StatusCode::SERVICE_UNAVAILABLE;
    let place = Arc::clone(&admin.snapshot).acquire_owned();
    let place = place.await.map_err(gone)?;
    let look = move || {
        // Also if whoever asked has gone meanwhile.
        let _place = place;
        code(&admin)
    };
    tokio::task::spawn_blocking(look)
        .await
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Result<Response, StatusCode> {
    let text = off_the_network(admin, metrics::text).await?;
    Ok(with_headers(
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        text.into_response(),
    ))
}

async fn state(State(admin): State<Arc<Admin>>) -> Result<Response, StatusCode> {
    let state = off_the_network(admin, state::now).await?;
    Ok(with_headers(
        "application/json",
        axum::Json(state).into_response(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_made_to_point_here_is_not_answered() {
        let hosts = ["chiplet.example".to_owned(), String::new()];
        let asked = |host: &'static str| {
            let host = (header::HOST, HeaderValue::from_static(host));
            is_asked_by(&HeaderMap::from_iter([host]), &hosts)
        };
        for good in [
            "127.0.0.1:6335",
            "10.0.0.7",
            "[::1]:6335",
            "[::1]",
            "localhost",
            "LOCALHOST:80",
            "Chiplet.Example:6335",
        ] {
            assert!(asked(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:6335",
            "",
            ":80",
            "localhost.evil.example",
        ] {
            assert!(!asked(bad), "{bad}");
        }
        assert!(is_asked_by(&HeaderMap::new(), &hosts));
    }
}
