//! Creating a collection: which of the API's many settings mean something here, and which are refused.
//!
//! An IVF collection is asked for in the collection's metadata, which every client can send:
//!
//! | key | value | default |
//! |---|---|---|
//! | `chiplet.index` | `hnsw`, `ivf`, `flat` | `hnsw` |
//! | `chiplet.nlist` | inverted lists | 256 |
//! | `chiplet.nprobe` | lists that a query visits | 16 |
//! | `chiplet.code` | Faiss' name of the code: `Flat`, `SQ8`, `SQ4`, `PQ16x4fs` | what `quantization_config` asks for, or `Flat` |

use std::collections::{BTreeMap, HashMap};

use chiplet::index::HnswConfig;
use prost::Message;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    self, CollectionConfig, CollectionParams, CollectionParamsDiff, CreateCollection, Datatype,
    HnswConfigDiff, IdTrackerParams, Memory, OptimizersConfigDiff, PayloadStorageParams,
    QuantizationConfigDiff, ShardingMethod, SparseVectorConfig, UpdateCollection, Value,
    VectorParams, VectorsConfig, VectorsConfigDiff, WalConfigDiff,
};
use tonic::Status;

use super::quantization;
use super::refusal::{invalid, quoted, says, unless_absent, unsupported};
use crate::collection::collection::{DEAD_PART, FEW_DEAD};
use crate::collection::schema::{Distance, IndexKind, Quantization, Settings};
use crate::config::{IndexSettings, Limits};

/// Metadata keys that begin with this are instructions; others are kept and given back.
const PREFIX: &str = "chiplet.";
const DEFAULT_LISTS: usize = 256;
const DEFAULT_PROBES: usize = 16;
/// Bytes of metadata that are kept with a collection.
const MOST_METADATA: usize = 64 << 10;
/// More lists than this take minutes to train.
const MOST_LISTS: usize = 65_536;

/// The settings of the collection that `message` asks for.
pub(super) fn settings(
    message: CreateCollection,
    limits: &Limits,
    defaults: &IndexSettings,
) -> Result<Settings, Status> {
    #[expect(deprecated, reason = "older clients send it")]
    let on_disk_payload = message.on_disk_payload;
    let custom_shards = message.sharding_method == Some(ShardingMethod::Custom as i32);
    let strict = message.strict_mode_config;
    unless_absent(&[
        (says(&message.wal_config, &wal()), "WAL settings"),
        (
            message.shard_number.unwrap_or(1) > 1 || custom_shards,
            "shards",
        ),
        (on_disk_payload.unwrap_or(false), "payloads on disk"),
        (
            message.replication_factor.unwrap_or(1) > 1
                || message.write_consistency_factor.unwrap_or(1) > 1,
            "replicas",
        ),
        (
            says(
                &message.sparse_vectors_config,
                &SparseVectorConfig::default(),
            ),
            "sparse vectors",
        ),
        (
            strict.is_some_and(|strict| strict.enabled.unwrap_or(false)),
            "strict mode; see the server's limits",
        ),
        (
            says(&message.payload, &PayloadStorageParams::default())
                || says(&message.id_tracker, &IdTrackerParams::default()),
            "storage settings of payloads and ids",
        ),
    ])?;
    let metadata_bytes: usize = message
        .metadata
        .iter()
        .map(|(key, value)| key.len() + value.encoded_len())
        .sum();
    if metadata_bytes > MOST_METADATA {
        return Err(invalid(format!(
            "{metadata_bytes} bytes of metadata; at most {MOST_METADATA}"
        )));
    }
    let params = match message.vectors_config.and_then(|config| config.config) {
        Some(Config::Params(params)) => params,
        Some(Config::ParamsMap(named)) => {
            let mut map = named.map;
            match (map.remove(""), map.is_empty()) {
                (Some(params), true) => params,
                _ => return Err(unsupported("named vectors")),
            }
        }
        None => return Err(invalid("vectors_config is missing; give size and distance")),
    };
    let hnsw = merged(message.hnsw_config, params.hnsw_config);
    let distance = distance(&params)?;
    let quantization = quantization::read(message.quantization_config, params.quantization_config)?;
    let dim = dimension(params, limits)?;
    let index = index(&message.metadata, hnsw.as_ref(), quantization, dim)?;
    let (full_scan_bytes, rebuild_bytes) = thresholds(hnsw, message.optimizers_config, defaults)?;
    Ok(Settings {
        dim,
        distance,
        index,
        quantization,
        full_scan_bytes,
        rebuild_bytes,
        metadata: message
            .metadata
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect(),
        fields: BTreeMap::new(),
    })
}

/// The collection's graph settings, each overridden by the vector's own.
fn merged(common: Option<HnswConfigDiff>, own: Option<HnswConfigDiff>) -> Option<HnswConfigDiff> {
    let (Some(common), Some(own)) = (common, own) else {
        return own.or(common);
    };
    #[expect(deprecated, reason = "older clients send `on_disk`")]
    Some(HnswConfigDiff {
        m: own.m.or(common.m),
        ef_construct: own.ef_construct.or(common.ef_construct),
        full_scan_threshold: own.full_scan_threshold.or(common.full_scan_threshold),
        max_indexing_threads: own.max_indexing_threads.or(common.max_indexing_threads),
        on_disk: own.on_disk.or(common.on_disk),
        payload_m: own.payload_m.or(common.payload_m),
        inline_storage: own.inline_storage.or(common.inline_storage),
        memory: own.memory.or(common.memory),
    })
}

fn distance(params: &VectorParams) -> Result<Distance, Status> {
    match qdrant::Distance::try_from(params.distance) {
        Ok(qdrant::Distance::Cosine) => Ok(Distance::Cosine),
        Ok(qdrant::Distance::Dot) => Ok(Distance::Dot),
        Ok(qdrant::Distance::Euclid) => Ok(Distance::Euclid),
        Ok(qdrant::Distance::Manhattan) => Err(unsupported("the Manhattan distance")),
        _ => Err(invalid("distance is none of Cosine, Dot, Euclid")),
    }
}

fn dimension(params: VectorParams, limits: &Limits) -> Result<usize, Status> {
    #[expect(deprecated, reason = "older clients send it")]
    let on_disk = params.on_disk;
    let float = [Datatype::Default as i32, Datatype::Float32 as i32];
    unless_absent(&[
        (
            on_disk.unwrap_or(false) || params.memory == Some(Memory::Cold as i32),
            "vectors on disk",
        ),
        (
            params
                .datatype
                .is_some_and(|datatype| !float.contains(&datatype)),
            "vectors other than of 32-bit floats",
        ),
        (params.multivector_config.is_some(), "multi-vectors"),
    ])?;
    let most = limits.dimensions;
    usize::try_from(params.size)
        .ok()
        .filter(|dim| (1..=most).contains(dim))
        .ok_or_else(|| {
            invalid(format!(
                "size is {}; it must be 1 to {most} (limits.dimensions)",
                params.size
            ))
        })
}

fn index(
    metadata: &HashMap<String, Value>,
    hnsw: Option<&HnswConfigDiff>,
    quantization: Option<Quantization>,
    dim: usize,
) -> Result<IndexKind, Status> {
    let known = ["index", "nlist", "nprobe", "code"];
    for key in metadata.keys().filter_map(|key| key.strip_prefix(PREFIX)) {
        if !known.contains(&key) {
            return Err(invalid(format!(
                "metadata {} is no setting; there are {}",
                quoted(&format!("{PREFIX}{key}")),
                known.map(|key| format!("{PREFIX}{key}")).join(", ")
            )));
        }
    }
    let text = |key: &str| metadata.get(&format!("{PREFIX}{key}")).map(Value::as_str);
    let kind = match text("index") {
        None => "hnsw",
        Some(Some(kind)) => kind.as_str(),
        Some(None) => return Err(invalid("chiplet.index is no text")),
    };
    if kind != "ivf"
        && let Some(key) = known[1..].iter().find(|key| text(key).is_some())
    {
        return Err(invalid(format!("{PREFIX}{key} is for chiplet.index = ivf")));
    }
    let graph_settings =
        hnsw.is_some_and(|hnsw| hnsw.m.is_some_and(|m| m > 0) || hnsw.ef_construct.is_some());
    if kind != "hnsw" && graph_settings {
        return Err(invalid(format!(
            "hnsw_config is for graphs, and chiplet.index is {}",
            quoted(kind)
        )));
    }
    let kind = match kind {
        "hnsw" => graph(hnsw, quantization),
        "flat" => Ok(IndexKind::Flat),
        "ivf" if cfg!(not(feature = "ivf")) => Err(unsupported(
            "inverted lists: it was built without the feature `ivf`",
        )),
        "ivf" => Ok(IndexKind::Ivf {
            nlist: number(metadata, "nlist", DEFAULT_LISTS, MOST_LISTS)?,
            nprobe: number(metadata, "nprobe", DEFAULT_PROBES, MOST_LISTS)?,
            code: code(text("code"), quantization, dim)?,
        }),
        other => Err(invalid(format!(
            "chiplet.index is {}; say hnsw, ivf or flat",
            quoted(other)
        ))),
    }?;
    if kind == IndexKind::Flat && quantization.is_some() {
        return Err(invalid(
            "quantization_config is for graphs and inverted lists, and there is to be no index; leave it out",
        ));
    }
    Ok(kind)
}

fn graph(
    hnsw: Option<&HnswConfigDiff>,
    quantization: Option<Quantization>,
) -> Result<IndexKind, Status> {
    let m = hnsw.and_then(|hnsw| hnsw.m);
    let ef_construct = hnsw.and_then(|hnsw| hnsw.ef_construct);
    match (m, ef_construct) {
        // As the API has it: no graph.
        (Some(0), _) => Ok(IndexKind::Flat),
        (Some(m), _) if !(2..=255).contains(&m) => Err(invalid(format!(
            "hnsw_config.m is {m}; it must be 2 to 255, or 0 for exact search"
        ))),
        (_, Some(ef)) if !(4..=10_000).contains(&ef) => Err(invalid(format!(
            "hnsw_config.ef_construct is {ef}; it must be 4 to 10,000"
        ))),
        (m, ef_construct) => Ok(IndexKind::Hnsw {
            // Both are in range, so they fit.
            m: m.map_or(HnswConfig::DEFAULT_M, |m| m as usize),
            ef_construct: ef_construct
                .map_or(HnswConfig::DEFAULT_EF_CONSTRUCTION, |ef| ef as usize),
            codes: quantization.map(Quantization::row_format),
        }),
    }
}

/// The code of an inverted file's vectors. Only kinds that Faiss can train on any data are let through.
fn code(
    text: Option<Option<&String>>,
    quantization: Option<Quantization>,
    dim: usize,
) -> Result<String, Status> {
    let asked = quantization.map(Quantization::list_code);
    let code = match text {
        None => return Ok(asked.unwrap_or("Flat").to_owned()),
        Some(Some(code)) => code,
        Some(None) => return Err(invalid("chiplet.code is no text")),
    };
    if let Some(asked) = asked.filter(|asked| asked != code) {
        return Err(invalid(format!(
            "chiplet.code is {}, and quantization_config asks for {asked}; leave one of them out",
            quoted(code)
        )));
    }
    let digits = code
        .strip_prefix("PQ")
        .map(|rest| rest.strip_suffix("x4fs").unwrap_or(rest));
    match digits.map(str::parse::<usize>) {
        None if ["Flat", "SQ8", "SQ4"].contains(&code.as_str()) => Ok(code.clone()),
        Some(Ok(parts)) if parts > 0 && dim.is_multiple_of(parts) => Ok(code.clone()),
        Some(Ok(parts)) => Err(invalid(format!(
            "chiplet.code has {parts} parts, which do not divide the {dim} components of a vector evenly"
        ))),
        _ => Err(invalid(format!(
            "chiplet.code is {}; say Flat, SQ8, SQ4, PQ<parts> or PQ<parts>x4fs",
            quoted(code)
        ))),
    }
}

fn number(
    metadata: &HashMap<String, Value>,
    key: &str,
    default: usize,
    most: usize,
) -> Result<usize, Status> {
    let Some(value) = metadata.get(&format!("{PREFIX}{key}")) else {
        return Ok(default);
    };
    let whole = |x: f64| (x.fract() == 0.0).then_some(x as i64);
    value
        .as_integer()
        .or_else(|| value.as_double().and_then(whole))
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| invalid(format!("{PREFIX}{key} is no whole number from 1 to {most}")))
}

/// From which size on there is an index, and how much must be written for a new one, in bytes. `payload_m` asks for
/// links that serve filters; walks find rows that pass a filter without such links.
fn thresholds(
    hnsw: Option<HnswConfigDiff>,
    optimizers: Option<OptimizersConfigDiff>,
    defaults: &IndexSettings,
) -> Result<(u64, u64), Status> {
    if let Some(hnsw) = &hnsw {
        #[expect(deprecated, reason = "older clients send it")]
        let on_disk = hnsw.on_disk;
        unless_absent(&[
            (
                hnsw.max_indexing_threads.unwrap_or(0) > 1,
                "several threads for one graph; see index.builders",
            ),
            (
                on_disk.unwrap_or(false)
                    || hnsw.inline_storage.unwrap_or(false)
                    || hnsw.memory == Some(Memory::Cold as i32),
                "graphs on disk",
            ),
        ])?;
    }
    let indexing = optimizers.and_then(|optimizers| optimizers.indexing_threshold);
    let so = OptimizersConfigDiff {
        indexing_threshold: indexing,
        // There are no segments, so their number changes nothing.
        default_segment_number: optimizers.and_then(|said| said.default_segment_number),
        prevent_unoptimized: Some(false),
        ..self::optimizers()
    };
    unless_absent(&[(
        says(&optimizers, &so),
        "optimizer settings other than indexing_threshold",
    )])?;
    let bytes = |kib: u64| kib.saturating_mul(1024);
    let full_scan = hnsw.and_then(|hnsw| hnsw.full_scan_threshold);
    Ok(match (full_scan, indexing) {
        // As the API has it: no index.
        (_, Some(0)) => (u64::MAX, u64::MAX),
        (Some(full_scan), Some(indexing)) => (bytes(full_scan.max(indexing)), bytes(indexing)),
        (None, Some(indexing)) => (bytes(indexing), bytes(indexing)),
        (Some(full_scan), None) => (bytes(full_scan), bytes(defaults.rebuild_kib)),
        (None, None) => (bytes(defaults.full_scan_kib), bytes(defaults.rebuild_kib)),
    })
}

/// What an update of a collection's settings comes to: the bytes from which on there is an index, and that must be
/// written for a new one. No index while much is loaded (`indexing_threshold` 0, or `m` 0) and one afterwards is what
/// clients ask for. Settings of segments mean nothing here, where there are none.
pub(super) fn update(
    message: &UpdateCollection,
    current: &Settings,
    defaults: &IndexSettings,
) -> Result<(u64, u64), Status> {
    const OTHER: &str = "changing a collection's settings other than its thresholds of indexing";
    let no = [
        says(&message.params, &CollectionParamsDiff::default()),
        says(&message.vectors_config, &VectorsConfigDiff::default()),
        says(
            &message.quantization_config,
            &QuantizationConfigDiff::default(),
        ),
        says(
            &message.sparse_vectors_config,
            &SparseVectorConfig::default(),
        ),
        message
            .strict_mode_config
            .as_ref()
            .is_some_and(|strict| strict.enabled.unwrap_or(false)),
        !message.metadata.is_empty(),
    ];
    unless_absent(&[(no.contains(&true), OTHER)])?;
    let mut hnsw = message.hnsw_config;
    let (mut pause, mut go_on) = (false, false);
    if let Some(hnsw) = &mut hnsw {
        let (m, ef) = (hnsw.m.take(), hnsw.ef_construct.take());
        let same = match current.index {
            IndexKind::Hnsw {
                m: now,
                ef_construct,
                ..
            } => {
                m.is_none_or(|m| m == 0 || m == now as u64)
                    && ef.is_none_or(|ef| ef == ef_construct as u64)
            }
            // As in creating it, graphs' settings are not for these.
            IndexKind::Ivf { .. } | IndexKind::Flat => m.is_none() && ef.is_none(),
        };
        unless_absent(&[(
            !same,
            "changing a graph's settings m and ef_construct; make the collection anew",
        )])?;
        (pause, go_on) = (m == Some(0), m.is_some_and(|m| m > 0));
    }
    let indexing = message
        .optimizers_config
        .and_then(|optimizers| optimizers.indexing_threshold);
    let full_scan = hnsw.as_ref().and_then(|hnsw| hnsw.full_scan_threshold);
    let optimizers = OptimizersConfigDiff {
        indexing_threshold: if pause { Some(0) } else { indexing },
        ..OptimizersConfigDiff::default()
    };
    let is_paused = current.rebuild_bytes == u64::MAX;
    let nothing = optimizers.indexing_threshold.is_none() && full_scan.is_none();
    let (full_scan_bytes, rebuild_bytes) = thresholds(hnsw, Some(optimizers), defaults)?;
    Ok(match nothing && !(go_on && is_paused) {
        true => (current.full_scan_bytes, current.rebuild_bytes),
        false => (full_scan_bytes, rebuild_bytes),
    })
}

/// Settings of segments, as they are here: one index, of which a fifth may be dead, and every commit is flushed.
/// Clients of some version insist on each of these.
fn optimizers() -> OptimizersConfigDiff {
    OptimizersConfigDiff {
        deleted_threshold: Some(1.0 / DEAD_PART as f64),
        vacuum_min_vector_number: Some(FEW_DEAD as u64),
        default_segment_number: Some(1),
        flush_interval_sec: Some(0),
        ..OptimizersConfigDiff::default()
    }
}

/// There is no write-ahead log beside the store. Clients insist on both.
fn wal() -> WalConfigDiff {
    WalConfigDiff {
        wal_capacity_mb: Some(0),
        wal_segments_ahead: Some(0),
        ..WalConfigDiff::default()
    }
}

/// The settings as the API shows them.
pub(super) fn describe(settings: Settings) -> CollectionConfig {
    let distance = match settings.distance {
        Distance::Cosine => qdrant::Distance::Cosine,
        Distance::Dot => qdrant::Distance::Dot,
        Distance::Euclid => qdrant::Distance::Euclid,
    };
    let (m, ef_construct) = match settings.index {
        IndexKind::Hnsw {
            m, ef_construct, ..
        } => (m as u64, ef_construct as u64),
        IndexKind::Ivf { .. } | IndexKind::Flat => (0, 0),
    };
    let kib = |bytes: u64| match bytes {
        u64::MAX => 0,
        bytes => bytes / 1024,
    };
    CollectionConfig {
        params: Some(CollectionParams {
            shard_number: 1,
            replication_factor: Some(1),
            write_consistency_factor: Some(1),
            vectors_config: Some(VectorsConfig {
                config: Some(Config::Params(VectorParams {
                    size: settings.dim as u64,
                    distance: distance.into(),
                    ..VectorParams::default()
                })),
            }),
            ..CollectionParams::default()
        }),
        hnsw_config: Some(HnswConfigDiff {
            m: Some(m),
            ef_construct: Some(ef_construct),
            full_scan_threshold: Some(kib(settings.full_scan_bytes)),
            ..HnswConfigDiff::default()
        }),
        optimizer_config: Some(OptimizersConfigDiff {
            indexing_threshold: Some(kib(settings.rebuild_bytes)),
            ..optimizers()
        }),
        wal_config: Some(wal()),
        quantization_config: settings.quantization.map(quantization::describe),
        metadata: settings
            .metadata
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect(),
        ..CollectionConfig::default()
    }
}
