//! Starting, being ready, and stopping.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::QdrantServer;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::admin::metrics::{Meters, Remaps};
use crate::admin::{self, Admin};
use crate::api::admission::{self, Admission, ApiKey};
use crate::api::blocking::Blocking;
use crate::api::schema::Schema;
use crate::api::slots::RequestSlots;
use crate::api::{Api, Service};
use crate::authentication::Unauthenticated;
use crate::collection::Catalog;
use crate::collection::builder::Builder;
use crate::collection::catalog::Loading;
use crate::config::{Limits, Settings};
use crate::exposure;
use crate::files;
use crate::gate::{self, Tls};
use crate::memory::{self, Budget};
use crate::net;
use crate::private;
use crate::scheduling::background::Background;
use crate::scheduling::{Scheduler, cores};
use crate::tls;

/// The API's description, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/qdrant.binpb"));

/// Headers of a request, as gRPC's own default; keys and trace contexts are far smaller.
const HEADER_BYTES: u32 = 8 << 10;

/// How often a silent connection is asked whether it is still there, and how long it has to say so.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);

/// How long answers have to be taken, once the last request is over, on a connection that has become too old.
const CONNECTION_GRACE: Duration = Duration::from_secs(30);

/// Messages to health and to reflection: names of services and of what they consist of. Health asks for no key.
const HEALTH_BYTES: usize = 4 << 10;
const REFLECTION_BYTES: usize = 64 << 10;

/// Streams of each that may be open: they stay so for as long as their client likes. And probes of health under way.
/// Strangers have places of their own.
const STREAMS: usize = 256;

/// What health is told of.
const HEALTH: [&str; 4] = ["", "qdrant.Points", "qdrant.Collections", "qdrant.Qdrant"];

/// How old a connection to the admin port may get: a page may stay open for a day.
const ADMIN_CONNECTION_AGE: Duration = Duration::from_secs(86_400);
/// How long one may ask nothing: pages ask every second or so, Prometheus every minute.
const ADMIN_SILENCE: Duration = Duration::from_secs(75);

/// How long it may take from a request's first byte to its answer.
const ADMIN_REQUEST: Duration = Duration::from_secs(30);

/// Threads for what blocks: commits, snapshots.
const BLOCKING_THREADS: usize = 64;

/// Whether the server takes traffic, and if not, why.
pub(crate) struct Readiness {
    started: Instant,
    loading: Loading,
    loaded: AtomicBool,
    draining: AtomicBool,
}

impl Readiness {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            loading: Loading::default(),
            loaded: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// What it still needs; `None` if it is ready.
    pub(crate) fn missing(&self) -> Option<String> {
        if self.is_draining() {
            Some("draining: the server is about to stop".to_owned())
        } else if self.loaded.load(Ordering::Acquire) {
            None
        } else {
            let done = self.loading.done.load(Ordering::Relaxed);
            let total = self.loading.total.load(Ordering::Relaxed);
            Some(format!("loading: {done} of {total} collections"))
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

/// How a server has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Writes that clients took for stored (`wait=false`), and that were not when the time was up, or could not be.
    pub lost_writes: u64,
}

/// A running server.
pub struct Server {
    runtime: Runtime,
    api: Arc<Api>,
    readiness: Arc<Readiness>,
    health: HealthReporter,
    grpc_addr: SocketAddr,
    admin_addr: SocketAddr,
    /// Turned to true, it ends the services.
    stop: watch::Sender<bool>,
    /// Turned to true when all collections are loaded.
    loaded: watch::Receiver<bool>,
    services: Vec<JoinHandle<anyhow::Result<()>>>,
    drain: Duration,
    drain_writes: Duration,
    notice: Duration,
    /// Keeps other servers out of the data folder.
    _lock: File,
}

impl Server {
    /// Binds the ports and starts everything. Collections are loaded meanwhile; see [`Server::wait_until_ready`].
    ///
    /// # Errors
    /// A port, the data folder, a certificate or the machine will not do; the message says which and why.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        let files = files::raise_limit();
        for (address, warning) in exposure::warnings(settings) {
            tracing::warn!(%address, "{warning}");
        }
        let folder = &settings.data_dir;
        private::folder(folder)
            .with_context(|| format!("data_dir {} cannot be made", folder.display()))?;
        let lock = lock(folder)?;
        let remaps = Arc::new(Remaps::default());
        let scheduler = {
            let remaps = Arc::clone(&remaps);
            Arc::new(Scheduler::start(&settings.scheduler, move |event| {
                remaps.push(event);
            })?)
        };
        let background = Background::new(&scheduler);
        let runtime = runtime(settings, &background)?;
        let builder = Builder::start(settings.index.builders, &background, &scheduler)
            .context("the threads that build indexes could not be started")?;
        let limit = match settings.limits.memory_bytes {
            0 => memory::available() / 2,
            bytes => bytes,
        };
        let budget = Arc::new(Budget::new(limit));
        let catalog = Arc::new(Catalog::new(
            folder,
            Arc::clone(&scheduler),
            Arc::clone(&builder),
            Arc::clone(&budget),
            settings.limits.collections,
        ));
        catalog
            .scan()
            .with_context(|| format!("data_dir {} cannot be read", folder.display()))?;
        let room = files::allot(files, settings.limits.connections, catalog.list().len())?;
        if room.connections < settings.limits.connections {
            tracing::warn!(
                connections = room.connections,
                wanted = settings.limits.connections,
                "the process may open too few files for limits.connections, so fewer are taken: raise the hard limit \
                 (ulimit -Hn, LimitNOFILE=), or lower it"
            );
        }
        let api = Arc::new(Api {
            catalog,
            scheduler,
            builder,
            meters: Arc::new(Meters::new()),
            limits: settings.limits.clone(),
            index: settings.index.clone(),
            pace: Arc::default(),
            blocking: Blocking::default(),
            schema: Arc::new(Schema::read(DESCRIPTORS)?),
        });
        let readiness = Arc::new(Readiness::new());
        let (stop, stopped) = watch::channel(false);
        let (health, loaded, services, grpc_addr, admin_addr) = runtime.block_on(async {
            let grpc = bind(settings.grpc_addr, "grpc_addr")?;
            let admin = bind(settings.admin_addr, "admin_addr")?;
            let (grpc_addr, admin_addr) = (grpc.local_addr()?, admin.local_addr()?);
            let (health, serving) = tonic_health::server::health_reporter();
            report(&health, ServingStatus::NotServing).await;
            let loaded = load(&api, &readiness, &health)?;
            let router = router(settings, &api, budget, serving)?;
            let tls = tls::acceptor(&settings.tls)?.map(|acceptor| Tls {
                acceptor,
                authenticates: settings.auth.api_key.is_none(),
            });
            // With neither a key nor certificates there is nothing to show.
            let half = room.connections.div_ceil(2);
            let shown = settings.auth.api_key.is_some() || settings.tls.client_ca.is_some();
            let unauthenticated = shown.then(|| Unauthenticated::new(half, tls.is_some()));
            let connections = net::accept(
                grpc,
                room.connections,
                connection_end(&settings.limits),
                net::Opening::Handshake,
                unauthenticated,
                Arc::clone(&api.meters),
            );
            let connections = gate::open(connections, tls);
            let mut until = stopped.clone();
            let grpc = tokio::spawn(async move {
                let stopped = async move {
                    // An error means that the server is gone.
                    let _ = until.wait_for(|stop| *stop).await;
                };
                router
                    .serve_with_incoming_shutdown(ReceiverStream::new(connections), stopped)
                    .await
                    .context("the gRPC service ended")
            });
            let page = Arc::new(Admin::new(
                Arc::clone(&api),
                remaps,
                Arc::clone(&readiness),
                grpc_addr,
                &settings.admin_hosts,
            ));
            let admin_connections = net::accept(
                admin,
                room.admin_connections,
                ADMIN_CONNECTION_AGE,
                net::Opening::Bytes {
                    silence: ADMIN_SILENCE,
                    request: ADMIN_REQUEST,
                },
                // Nobody has a key to show, so the oldest makes room for a newer one.
                Some(Unauthenticated::new(room.admin_connections, false)),
                Arc::new(Meters::new()),
            );
            let admin = tokio::spawn(async move {
                axum::serve(
                    net::AdminConnections::new(admin_connections, admin_addr),
                    admin::routes(page),
                )
                .await
                .context("the admin port ended")
            });
            anyhow::Ok((health, loaded, vec![grpc, admin], grpc_addr, admin_addr))
        })?;
        Ok(Self {
            runtime,
            api,
            readiness,
            health,
            grpc_addr,
            admin_addr,
            stop,
            loaded,
            services,
            drain: Duration::from_secs(settings.drain_seconds),
            drain_writes: Duration::from_secs(settings.drain_writes_seconds),
            notice: Duration::from_secs(settings.drain_notice_seconds),
            _lock: lock,
        })
    }

    /// Where gRPC is served; the port is the real one if 0 was asked for.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where the admin page is served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Waits until all collections are loaded. Indexes that are not saved are built afterwards.
    pub fn wait_until_ready(&self) {
        let mut loaded = self.loaded.clone();
        // An error means that loading has died; then it is never ready, and says so.
        let _ = self
            .runtime
            .block_on(async move { loaded.wait_for(|loaded| *loaded).await.map(|_| ()) });
    }

    /// Stops: not ready, then no new connections, then running requests and writes have the time of the settings. What
    /// is lost all the same is in the log.
    pub fn shutdown(mut self) -> Stopped {
        let failed_before = self.api.catalog.failed_writes();
        self.readiness.draining.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + self.notice + self.drain;
        let services = std::mem::take(&mut self.services);
        self.runtime.block_on(async {
            report(&self.health, ServingStatus::NotServing).await;
            tokio::time::sleep(self.notice).await;
            self.stop.send_replace(true);
            // Whoever watches would keep a connection open to the end.
            let mut health = self.health.clone();
            for service in HEALTH {
                health.clear_service_status(service).await;
            }
            let mut services = services.into_iter();
            if let Some(grpc) = services.next()
                && tokio::time::timeout_at(deadline.into(), grpc)
                    .await
                    .is_err()
            {
                tracing::warn!("requests were still running when the time to drain was up");
            }
            // Acknowledged writes that nobody waited for are stored.
            let stored_by = Instant::now() + self.drain_writes;
            while !self.api.catalog.is_stored() && Instant::now() < stored_by {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // The admin port answers to the end.
            services.for_each(|admin| admin.abort());
        });
        let lost_writes = self.report_lost(failed_before);
        for collection in self.api.catalog.out_of_place() {
            tracing::error!(
                collection = &*collection,
                "its file is not in data_dir any more, which was moved, removed or replaced: the next start will not find it"
            );
        }
        self.api.builder.close();
        let left = deadline.saturating_duration_since(Instant::now());
        if let Some(report) = self.api.scheduler.drain(left)
            && report.abandoned > 0
        {
            tracing::warn!(abandoned = report.abandoned, "queries were abandoned");
        }
        let left = deadline.saturating_duration_since(Instant::now());
        self.runtime
            .shutdown_timeout(left.max(Duration::from_secs(1)));
        match lost_writes {
            0 => tracing::info!("stopped"),
            lost_writes => {
                tracing::error!(lost_writes, "stopped, and acknowledged writes are lost")
            }
        }
        Stopped { lost_writes }
    }

    /// Says which acknowledged writes are not stored, and counts them with those that have failed since.
    fn report_lost(&self, failed_before: u64) -> u64 {
        let catalog = &self.api.catalog;
        let mut lost = catalog.failed_writes() - failed_before;
        for (collection, left) in catalog.unstored() {
            tracing::error!(
                collection = &*collection,
                writes = left.writes,
                points = left.points,
                "acknowledged writes are lost: they were not stored when drain_writes_seconds was up"
            );
            lost += left.writes;
        }
        lost
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// How old a connection may get. At `connection_seconds` it takes no further requests; those that are under way then
/// have all the time that requests have, so this ends only connections of clients that read nothing or stay for no
/// reason.
fn connection_end(limits: &Limits) -> Duration {
    let asked_to_go = Duration::from_secs(limits.connection_seconds);
    let longest_request = Duration::from_secs(limits.query_seconds) + admission::MARGIN;
    asked_to_go + longest_request + CONNECTION_GRACE
}

fn bind(address: SocketAddr, key: &str) -> anyhow::Result<tokio::net::TcpListener> {
    net::listen(address).with_context(|| {
        format!("{key} {address} cannot be listened on; is another server running there?")
    })
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = private::options()
        .create(true)
        .truncate(false)
        .open(&path)
        .with_context(|| format!("{}", path.display()))?;
    file.try_lock().map_err(|error| {
        let folder = folder.display();
        anyhow::anyhow!(
            "data_dir {folder} is in use by another server ({error}); give each its own"
        )
    })?;
    Ok(file)
}

/// tokio on the cores that are left free, if there are any.
fn runtime(settings: &Settings, background: &Background) -> anyhow::Result<Runtime> {
    let free: Vec<u32> = background.left_free().to_vec();
    let threads = match settings.scheduler.network_threads {
        0 => free.len().max(2),
        threads => threads,
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("network")
        .on_thread_start(move || cores::settle(&free))
        .enable_all()
        .build()
        .context("the network's threads could not be started")
}

/// Loads the collections on a thread of its own, then says that the server is ready.
fn load(
    api: &Arc<Api>,
    readiness: &Arc<Readiness>,
    health: &HealthReporter,
) -> anyhow::Result<watch::Receiver<bool>> {
    let (done, loaded) = watch::channel(false);
    let (finished, read) = oneshot::channel();
    let (catalog, reading) = (Arc::clone(&api.catalog), Arc::clone(readiness));
    // Not one of tokio's threads: those are waited for when the server stops, and a build cannot be interrupted.
    std::thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || {
            catalog.load(&reading.loading);
            // The receiver is gone only if the server is.
            let _ = finished.send(());
        })
        .context("the thread that loads collections could not be started")?;
    let (readiness, health) = (Arc::clone(readiness), health.clone());
    tokio::spawn(async move {
        if read.await.is_err() {
            tracing::error!("loading panicked; the server will not be ready");
            return;
        }
        readiness.loaded.store(true, Ordering::Release);
        if !readiness.is_draining() {
            report(&health, ServingStatus::Serving).await;
        }
        tracing::info!(seconds = readiness.uptime().as_secs_f64(), "ready");
        done.send_replace(true);
    });
    Ok(loaded)
}

async fn report(health: &HealthReporter, status: ServingStatus) {
    for service in HEALTH {
        health.set_service_status(service, status).await;
    }
}

type Router = tonic::transport::server::Router<
    tower::layer::util::Stack<Admission, tower::layer::util::Identity>,
>;

fn router(
    settings: &Settings,
    api: &Arc<Api>,
    budget: Arc<Budget>,
    health: tonic_health::pb::health_server::HealthServer<
        impl tonic_health::pb::health_server::Health,
    >,
) -> anyhow::Result<Router> {
    let api_key = match &settings.auth.api_key {
        Some(key) => {
            let api_key = ApiKey::new(key);
            Some(Arc::new(api_key.map_err(|_| {
                anyhow::anyhow!("the system gave no random bytes for checking keys")
            })?))
        }
        None => None,
    };
    let limits = &settings.limits;
    let admission = Admission {
        api_key,
        meters: Arc::clone(&api.meters),
        slots: Arc::new(RequestSlots::new(limits.requests)),
        pace: Arc::clone(&api.pace),
        longest: Duration::from_secs(limits.query_seconds),
        limits: Arc::new(limits.clone()),
        schema: Arc::clone(&api.schema),
        budget,
        probes: Arc::new(Semaphore::new(STREAMS)),
        health_streams: Arc::new(Semaphore::new(STREAMS)),
        reflection_streams: Arc::new(Semaphore::new(STREAMS)),
    };
    let server = tonic::transport::Server::builder()
        .max_concurrent_streams(limits.concurrent_streams)
        // A client may give up all the streams it may have open, at once: deadlines pass together when the machine is
        // busy. hyper's own bound of 20 ends the connection, and every other request on it.
        .http2_max_pending_accept_reset_streams(Some(limits.concurrent_streams as usize))
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        // Without tonic's grace: with it, tonic cuts connections off instead of saying goodbye. `net` cuts off those
        // that stay all the same.
        .max_connection_age(Duration::from_secs(limits.connection_seconds));
    let service = Service(Arc::clone(api));
    let largest = limits.message_bytes;
    let describe = || {
        let mut builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        // The description has services that are not served here.
        for served in [
            "qdrant.Qdrant",
            "qdrant.Collections",
            "qdrant.Points",
            "grpc.health.v1.Health",
        ] {
            builder = builder.with_service_name(served);
        }
        builder
    };
    Ok(server
        .layer(admission)
        .add_service(QdrantServer::new(service.clone()))
        .add_service(CollectionsServer::new(service.clone()).max_decoding_message_size(largest))
        .add_service(PointsServer::new(service).max_decoding_message_size(largest))
        .add_service(health.max_decoding_message_size(HEALTH_BYTES))
        .add_service(
            describe()
                .build_v1()?
                .max_decoding_message_size(REFLECTION_BYTES),
        )
        .add_service(
            describe()
                .build_v1alpha()?
                .max_decoding_message_size(REFLECTION_BYTES),
        ))
}
