//! Settings: built-in defaults, then a TOML file, then `CHIPLET_*` environment variables; the later wins.
//!
//! A key of a section has two underscores in its variable: `limits.dimensions` is `CHIPLET_LIMITS__DIMENSIONS`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chiplet::Pin;
use chiplet::topology::LevelChoice;
use serde::{Deserialize, Serialize};

/// The server's settings. `Settings::default()` serves on the loopback interface, from `./chiplet-data`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Settings {
    /// Where gRPC is served.
    pub grpc_addr: SocketAddr,
    /// Where health, metrics and the admin page are served: to whoever can reach it, without a key.
    pub admin_addr: SocketAddr,
    /// Names by which the admin port may be asked besides `localhost` and addresses, separated by commas. Others are
    /// refused: they may be somebody's who wants a browser to read the page for them.
    pub admin_hosts: String,
    /// The folder of the collections' files; made if it is not there.
    pub data_dir: PathBuf,
    /// What is logged, in `tracing`'s filter syntax: `warn`, `info`, `chiplet_server::query=debug`.
    pub log: String,
    /// Seconds that running requests have after SIGTERM.
    pub drain_seconds: u64,
    /// Seconds that acknowledged writes have to be stored after that.
    pub drain_writes_seconds: u64,
    /// Seconds between "not ready" and "no new connections" after SIGTERM, for load balancers to notice.
    pub drain_notice_seconds: u64,
    /// Where spans are sent (OTLP over gRPC), if the server was built with the feature `otel`: `http://127.0.0.1:4317`.
    pub otlp_endpoint: Option<String>,
    /// Who may come.
    pub auth: AuthSettings,
    /// Encryption.
    pub tls: TlsSettings,
    /// Bounds.
    pub limits: Limits,
    /// Who runs the searches, and where.
    pub scheduler: SchedulerSettings,
    /// When indexes are built.
    pub index: IndexSettings,
    /// Where the key comes from, to be told instead of the key.
    #[serde(skip)]
    pub(crate) key_from: Option<String>,
}

/// Who may come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuthSettings {
    /// The key that every request has to bring, as `api-key` or `authorization: Bearer`. None: anyone may come.
    pub api_key: Option<Secret>,
}

/// Encryption. Without a certificate the server speaks plain text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The server's certificate chain, a PEM file.
    pub cert: Option<PathBuf>,
    /// Its private key, a PEM file.
    pub key: Option<PathBuf>,
    /// The authorities whose certificates clients must show (mutual TLS), a PEM file. None: clients show none.
    pub client_ca: Option<PathBuf>,
}

/// Bounds. What goes beyond one is refused with a message that names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request that writes, or of a batch of queries. It may decode to eight times as much.
    pub message_bytes: usize,
    /// Bytes of any other request. It may decode to eight times as much.
    pub read_bytes: usize,
    /// Components of a vector.
    pub dimensions: usize,
    /// `limit + offset` of a query, and ids of a `Get`.
    pub results: usize,
    /// Bytes of an answer, about: payloads and vectors of what is found.
    pub answer_bytes: usize,
    /// `hnsw_ef` of a query.
    pub hnsw_ef: usize,
    /// Queries of a batch.
    pub batch: usize,
    /// Points of an upsert.
    pub upsert_points: usize,
    /// Collections.
    pub collections: usize,
    /// Bytes of writes that may wait for the disk, per collection.
    pub write_queue_bytes: u64,
    /// Bytes of all points and indexes, and of requests and answers under way, to which points and indexes leave an
    /// eighth. Builds may take as much again while they run. 0: half of the memory that the process may use.
    pub memory_bytes: u64,
    /// Connections at a time; further ones are closed at once.
    pub connections: usize,
    /// Seconds after which a client is asked to connect anew. What it has under way is finished; those that never read
    /// are let go soon after.
    pub connection_seconds: u64,
    /// Requests at a time, over all connections, until their answers have been taken.
    pub requests: usize,
    /// Requests at a time on one connection.
    pub concurrent_streams: u32,
    /// Seconds that a query without a deadline of its own has.
    pub query_seconds: u64,
    /// Seconds after a call's headers until its message is there; each 64 KiB of it that have come are worth one more.
    pub message_seconds: u64,
}

/// Who runs the searches, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SchedulerSettings {
    /// `chiplet`, or `rayon` for comparison: one pool for all, without bounds.
    pub kind: SchedulerKind,
    /// Workers. 0: one for each core that is not left free.
    pub workers: usize,
    /// Cores left to the network's threads and to index builds. Unset: an eighth, and none below four cores.
    pub reserve_cores: Option<usize>,
    /// Which cache makes a domain: `auto`, `l2`, `l3`.
    pub level: String,
    /// What a worker is tied to: `domain`, `core`, `none`. `auto`: `domain`, but `none` where a CPU quota leaves
    /// domains without workers.
    pub pin: String,
    /// Queries that may wait, for each worker of a domain; a collection may have half of them.
    pub queue_per_worker: usize,
    /// The network's threads. 0: one for each core left free, at least two.
    pub network_threads: usize,
}

/// Who runs the searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerKind {
    /// chiplet's executor.
    #[default]
    Chiplet,
    /// A plain rayon pool, as a baseline.
    Rayon,
}

/// When indexes are built. A collection may say otherwise when it is created.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct IndexSettings {
    /// Threads that build.
    pub builders: usize,
    /// KiB of vectors below which a collection has no index: exact search is as fast.
    pub full_scan_kib: u64,
    /// KiB of vectors written since an index was built that call for a new one, if they are a quarter of it too.
    pub rebuild_kib: u64,
}

/// A text that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Leaves a choice to the executor.
const UNSAID: &str = "auto";

const HIDDEN: &str = "(set, not shown)";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grpc_addr: SocketAddr::from(([127, 0, 0, 1], 6334)),
            admin_addr: SocketAddr::from(([127, 0, 0, 1], 6335)),
            admin_hosts: String::new(),
            data_dir: PathBuf::from("chiplet-data"),
            log: "info".into(),
            drain_seconds: 10,
            drain_writes_seconds: 20,
            drain_notice_seconds: 0,
            otlp_endpoint: None,
            auth: AuthSettings::default(),
            tls: TlsSettings::default(),
            limits: Limits::default(),
            scheduler: SchedulerSettings::default(),
            index: IndexSettings::default(),
            key_from: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 32 << 20,
            read_bytes: 1 << 20,
            dimensions: 8_192,
            results: 10_000,
            answer_bytes: 64 << 20,
            hnsw_ef: 10_000,
            batch: 256,
            upsert_points: 100_000,
            collections: 10_000,
            write_queue_bytes: 256 << 20,
            memory_bytes: 0,
            connections: 20_000,
            connection_seconds: 900,
            requests: 4_096,
            concurrent_streams: 256,
            query_seconds: 60,
            message_seconds: 5,
        }
    }
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self {
            kind: SchedulerKind::Chiplet,
            workers: 0,
            reserve_cores: None,
            level: "auto".into(),
            pin: UNSAID.into(),
            queue_per_worker: 32,
            network_threads: 0,
        }
    }
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self {
            builders: 1,
            full_scan_kib: 1_024,
            rebuild_kib: 1_024,
        }
    }
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file or a variable cannot be read as settings.
    #[error("{0}; `chiplet-server --print-config` shows every setting with its default")]
    Invalid(String),
    /// A value is out of its range.
    #[error("{key} is {value}; {want}")]
    Value {
        /// The setting.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        want: &'static str,
    },
}

/// Longer spans need not fit in a clock.
const YEAR: u64 = 31_536_000;

const PREFIX: &str = "CHIPLET_";

const API_KEY: &str = "CHIPLET_AUTH__API_KEY";

/// Parts of a name by which it means to protect something. The server does not start when such a variable is no
/// setting: misspelt, it would let anyone in.
const PROTECTING: [&str; 9] = [
    "AUTH", "KEY", "TOKEN", "SECRET", "PASSWORD", "TLS", "SSL", "CERT", "CA",
];

/// Variables of other parts of the project, which are no settings.
const FOREIGN: [&str; 2] = ["CHIPLET_SCREENSHOTS", "CHIPLET_SOAK_SECONDS"];

impl Settings {
    /// The environment's variables, for [`Settings::load`]. Others' may hold anything and are left out then.
    ///
    /// # Errors
    /// [`ConfigError`]: a `CHIPLET_*` variable is not UTF-8. To leave out a key, say, would let anyone in.
    pub fn environment() -> Result<Vec<(String, String)>, ConfigError> {
        readable(std::env::vars_os())
    }

    /// Reads the settings from a file, if there is one, and from `variables`, the environment. Returns with them the
    /// variables that look like settings, in letters of any case, and are none.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read, names a setting that does not exist, or a value will not do. A
    /// variable is nearly a setting's, or looks as if it were about keys or certificates, and is none.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let invalid = |error: config::ConfigError| ConfigError::Invalid(error.to_string());
        let known = known_variables();
        let (ours, others): (Vec<_>, Vec<_>) = variables
            .into_iter()
            .filter(|(name, _)| is_ours(name) && !FOREIGN.contains(&name.as_str()))
            .partition(|(name, _)| known.contains(name));
        for (name, _) in &others {
            refuse_near_misses(name, &known)?;
        }
        let in_variable = ours.iter().any(|(name, _)| name == API_KEY);
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(config::File::from(file).format(config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix("CHIPLET")
            .prefix_separator("_")
            .separator("__")
            .source(Some(ours.into_iter().collect()));
        let mut settings: Self = builder
            .add_source(environment)
            .build()
            .and_then(config::Config::try_deserialize)
            .map_err(invalid)?;
        settings.check()?;
        settings.key_from = match file {
            _ if settings.auth.api_key.is_none() => None,
            _ if in_variable => Some(format!("the variable {API_KEY}")),
            file => file.map(|file| file.display().to_string()),
        };
        let others = others.into_iter().map(|(name, _)| name).collect();
        Ok((settings, others))
    }

    /// The settings as the TOML file that would give them, but for the key: a comment says that there is one, and from
    /// where. A server that is started from such a file needs the key as well, or lets anyone in.
    pub fn to_toml(&self) -> String {
        let mut shown = self.clone();
        let key = shown.auth.api_key.take();
        // All of it is strings, numbers and tables.
        let text = toml::to_string(&shown).expect("settings are TOML");
        match key {
            None => text,
            Some(_) => {
                let from = self.key_from.as_deref().unwrap_or("the program");
                // It may be any file's name.
                let from = from.escape_debug();
                let comment = format!(
                    "# api_key is set, by {from}, and is not shown. Set it here or as {API_KEY}: without it anyone may come.\n"
                );
                text.replacen("[auth]\n", &format!("[auth]\n{comment}"), 1)
            }
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        for (key, value) in [
            ("limits.message_bytes", limits.message_bytes),
            ("limits.read_bytes", limits.read_bytes),
            ("limits.dimensions", limits.dimensions),
            ("limits.results", limits.results),
            ("limits.answer_bytes", limits.answer_bytes),
            ("limits.hnsw_ef", limits.hnsw_ef),
            ("limits.batch", limits.batch),
            ("limits.upsert_points", limits.upsert_points),
            ("limits.connections", limits.connections),
            (
                "limits.connection_seconds",
                limits.connection_seconds as usize,
            ),
            ("limits.requests", limits.requests),
            (
                "limits.concurrent_streams",
                limits.concurrent_streams as usize,
            ),
            ("limits.query_seconds", limits.query_seconds as usize),
            ("limits.message_seconds", limits.message_seconds as usize),
            (
                "scheduler.queue_per_worker",
                self.scheduler.queue_per_worker,
            ),
            ("index.builders", self.index.builders),
        ] {
            if value == 0 {
                return Err(ConfigError::Value {
                    key,
                    value: "0".into(),
                    want: "it must be at least 1",
                });
            }
        }
        for (key, seconds) in [
            ("limits.query_seconds", limits.query_seconds),
            ("limits.message_seconds", limits.message_seconds),
            ("limits.connection_seconds", limits.connection_seconds),
            ("drain_seconds", self.drain_seconds),
            ("drain_writes_seconds", self.drain_writes_seconds),
            ("drain_notice_seconds", self.drain_notice_seconds),
        ] {
            if seconds > YEAR {
                return Err(ConfigError::Value {
                    key,
                    value: seconds.to_string(),
                    want: "it must be at most a year, 31536000",
                });
            }
        }
        if self.scheduler.level.parse::<LevelChoice>().is_err() {
            return Err(ConfigError::Value {
                key: "scheduler.level",
                value: self.scheduler.level.clone(),
                want: "say auto, l2 or l3",
            });
        }
        if self.scheduler.pin() == Err(()) {
            return Err(ConfigError::Value {
                key: "scheduler.pin",
                value: self.scheduler.pin.clone(),
                want: "say auto, domain, core or none",
            });
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return Err(ConfigError::Value {
                key: "tls",
                value: "half given".into(),
                want: "give both cert and key, or neither",
            });
        }
        if self.tls.client_ca.is_some() && self.tls.cert.is_none() {
            return Err(ConfigError::Value {
                key: "tls.client_ca",
                value: "given".into(),
                want: "it needs tls.cert and tls.key too",
            });
        }
        match self.auth.api_key.as_ref().map(Secret::reveal) {
            Some("") => Err(ConfigError::Value {
                key: "auth.api_key",
                value: "empty".into(),
                want: "give a key, or leave it out to let anyone in",
            }),
            Some(HIDDEN) => Err(ConfigError::Value {
                key: "auth.api_key",
                value: format!("{HIDDEN:?}, which is shown in place of a key and known to all"),
                want: "give the key itself",
            }),
            _ => Ok(()),
        }
    }
}

impl SchedulerSettings {
    pub(crate) fn level(&self) -> LevelChoice {
        // Checked when loaded; settings made in code fall back to the default.
        self.level.parse().unwrap_or(LevelChoice::Auto)
    }

    /// `None` leaves it to the executor.
    pub(crate) fn pin(&self) -> Result<Option<Pin>, ()> {
        match self.pin.as_str() {
            UNSAID => Ok(None),
            named => named.parse().map(Some).map_err(|_| ()),
        }
    }
}

fn readable(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let mut readable = Vec::new();
    for (name, value) in variables {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => readable.push((name, value)),
            (Ok(name), Err(_)) if is_ours(&name) => {
                return Err(ConfigError::Invalid(format!("{name} is not UTF-8")));
            }
            _ => {}
        }
    }
    Ok(readable)
}

/// Whether a variable looks as if it were for this server.
fn is_ours(name: &str) -> bool {
    let start = name.get(..PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Refuses a variable that is no setting, but would be with other underscores or letters of another case, or that was
/// meant to protect something. Of others, such as those by which Kubernetes names a service, a warning will do.
fn refuse_near_misses(name: &str, known: &BTreeSet<String>) -> Result<(), ConfigError> {
    let bare = |name: &str| name.to_ascii_uppercase().replace('_', "");
    let meant = known.iter().find(|known| bare(known) == bare(name));
    if let Some(meant) = meant {
        let message = format!("the variable {name} is no setting; {meant} is");
        return Err(ConfigError::Invalid(message));
    }
    let protects = name[PREFIX.len()..]
        .split('_')
        .any(|part| PROTECTING.contains(&&*part.to_ascii_uppercase()));
    match protects {
        true => Err(ConfigError::Invalid(format!(
            "the variable {name} is no setting, and may be a misspelt one without which anyone gets in"
        ))),
        false => Ok(()),
    }
}

/// The variable of every setting.
fn known_variables() -> BTreeSet<String> {
    // Settings that are unset by default would not be listed otherwise.
    let all = Settings {
        otlp_endpoint: Some(String::new()),
        auth: AuthSettings {
            api_key: Some(Secret::new("")),
        },
        tls: TlsSettings {
            cert: Some(PathBuf::new()),
            key: Some(PathBuf::new()),
            client_ca: Some(PathBuf::new()),
        },
        scheduler: SchedulerSettings {
            reserve_cores: Some(0),
            ..SchedulerSettings::default()
        },
        ..Settings::default()
    };
    let mut known = BTreeSet::new();
    let table = toml::Table::try_from(&all).expect("settings are TOML");
    collect(&table, PREFIX, &mut known);
    known
}

fn collect(table: &toml::Table, prefix: &str, known: &mut BTreeSet<String>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.to_uppercase());
        match value {
            toml::Value::Table(section) => collect(section, &format!("{name}__"), known),
            _ => {
                known.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
