//! Sample data: 30,000 GloVe word vectors (PDDL), as a graph and as inverted lists.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context;
use chiplet::index::{HnswConfig, normalized};
use chiplet_bench::workload::dataset::VectorSet;
use prost::Message;
use qdrant_client::qdrant::{PointStruct, Value};

use crate::collection::catalog::CatalogError;
use crate::collection::point::{Payload, Point, PointId};
use crate::collection::schema::{Distance, IndexKind, Settings};
use crate::collection::store::Change;
use crate::server::Server;

/// Points stored in one write.
const BATCH: usize = 5_000;

/// Metadata of the sample's collections. Clients cannot give a collection of theirs a key that begins with `chiplet.`
/// and is no setting.
const MARK: &str = "chiplet.sample";

impl Server {
    /// Makes the collections `words` (HNSW) and `words-ivf` (IVF, if built in) from the repository's `datasets` folder,
    /// unless they are there. The payload of each point is its word and the word's rank by frequency. Other collections
    /// of these names are left alone, with a warning.
    ///
    /// # Errors
    /// The data cannot be read, or not be stored.
    pub fn load_sample(&self, datasets: &Path) -> anyhow::Result<()> {
        let words = VectorSet::glove_sample(datasets)
            .with_context(|| format!("the sample data in {}", datasets.display()))?;
        let graph = IndexKind::Hnsw {
            m: HnswConfig::DEFAULT_M,
            ef_construct: HnswConfig::DEFAULT_EF_CONSTRUCTION,
            codes: None,
        };
        self.load_words("words", &words, graph)?;
        if cfg!(feature = "ivf") {
            let lists = IndexKind::Ivf {
                nlist: 256,
                code: "Flat".into(),
                nprobe: 16,
            };
            self.load_words("words-ivf", &words, lists)?;
        }
        Ok(())
    }

    fn load_words(&self, name: &str, words: &VectorSet, index: IndexKind) -> anyhow::Result<()> {
        let api = self.api();
        let settings = Settings {
            dim: words.dim(),
            distance: Distance::Cosine,
            index,
            quantization: None,
            full_scan_bytes: api.index.full_scan_kib * 1024,
            rebuild_bytes: api.index.rebuild_kib * 1024,
            metadata: BTreeMap::from([(MARK.to_owned(), "glove".into())]),
            fields: Default::default(),
        };
        match api.catalog.create(name, settings.clone()) {
            Err(CatalogError::Exists(_)) => {}
            created => created?,
        }
        let collection = api.catalog.find(name)?;
        if !collection.with_settings(|found| is_sample(found, &settings)) {
            tracing::warn!(
                collection = name,
                "a collection of this name is there and is not the sample's: it is left as it is, and the sample is not \
                 loaded; delete it, or give the sample a data_dir of its own"
            );
            return Ok(());
        }
        // An earlier start may have been stopped half-way.
        if collection.view().live >= words.len() {
            return Ok(());
        }
        let numbers: Vec<usize> = (0..words.len()).collect();
        for batch in numbers.chunks(BATCH) {
            let changes: Vec<Change> = batch
                .iter()
                .map(|&number| Change::Put(point(words, number)))
                .collect();
            let written = collection.write(
                changes,
                true,
                u64::MAX,
                &api.builder,
                self.runtime().handle(),
            )?;
            self.runtime().block_on(written)??;
        }
        tracing::info!(collection = name, points = words.len(), "sample loaded");
        Ok(())
    }
}

/// Whether a collection was made here: its points may then be completed.
fn is_sample(found: &Settings, wanted: &Settings) -> bool {
    found.metadata.get(MARK) == wanted.metadata.get(MARK)
        && found.dim == wanted.dim
        && found.distance == wanted.distance
        && found.index == wanted.index
}

fn point(words: &VectorSet, number: usize) -> Point {
    let payload = HashMap::from([
        (
            "word".to_owned(),
            Value::from(words.label(number).unwrap_or_default()),
        ),
        ("rank".to_owned(), Value::from(number as i64)),
    ]);
    let message = PointStruct {
        payload,
        ..PointStruct::default()
    };
    Point {
        id: PointId::Number(number as u64),
        vector: normalized(words.row(number)),
        payload: Payload::from(message.encode_to_vec()),
    }
}
