//! The demo's tables: parts of the word vectors, indexed, each with queries and their exact answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric, Refined, faiss_file};
use chiplet::{Query, Table};
use chiplet_workload::dataset::VectorSet;
use chiplet_workload::truth::{self, Truth};

/// Neighbours asked for and judged.
pub const K: usize = 10;
/// HNSW tables: each holds every twelfth word.
pub const HNSW_TABLES: usize = 12;
/// IVF tables: each holds every second word.
pub const IVF_TABLES: usize = 2;
/// Different queries a table is asked, the most frequent words first.
const QUERIES: usize = 1_000;
/// Candidates of a graph search; chosen for a recall well over 0.95.
const EF: usize = 64;
/// Lists an IVF query visits, of 128; likewise.
const NPROBE: usize = 20;

/// All words and their vectors.
pub struct Words {
    pub vectors: VectorSet,
    /// Where files of inverted lists are.
    lists: PathBuf,
}

impl Words {
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let vectors = VectorSet::glove_sample(folder)
            .with_context(|| format!("no word vectors in {}", folder.display()))?;
        println!(
            "data: {} word vectors of {} dimensions (GloVe 6B, PDDL 1.0)",
            vectors.len(),
            vectors.dim()
        );
        let lists = folder.join("glove-50d");
        Ok(Self { vectors, lists })
    }
}

/// Which index a table has, and how thoroughly it is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Hnsw,
    Ivf,
}

/// One table of the demo.
pub struct BuiltTable {
    pub name: String,
    pub kind: Kind,
    pub index: Arc<dyn Table>,
    /// This table holds word `part + parts * id` as `id`.
    pub part: usize,
    pub parts: usize,
    pub queries: VectorSet,
    pub truth: Truth,
}

impl BuiltTable {
    pub fn query(&self, vector: &[f32]) -> Query {
        let query = Query::new(vector).top(K);
        match self.kind {
            Kind::Hnsw => query.ef(EF),
            Kind::Ivf => query.nprobe(NPROBE),
        }
    }

    /// The word that a hit's id stands for, as a row of all words.
    pub fn word(&self, id: u64) -> usize {
        self.part + self.parts * id as usize
    }
}

/// Builds all tables, one a core at a time.
pub fn build(words: &Words) -> anyhow::Result<Vec<BuiltTable>> {
    let plans: Vec<(Kind, usize, usize)> = (0..HNSW_TABLES)
        .map(|part| (Kind::Hnsw, part, HNSW_TABLES))
        .chain((0..IVF_TABLES).map(|part| (Kind::Ivf, part, IVF_TABLES)))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut built: Vec<(usize, anyhow::Result<BuiltTable>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(plans.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut built = Vec::new();
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(&(kind, part, parts)) = plans.get(index) else {
                            return built;
                        };
                        built.push((index, build_one(words, kind, part, parts)));
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("building does not panic"))
            .collect()
    });
    built.sort_by_key(|(index, _)| *index);
    let built: Vec<BuiltTable> = built
        .into_iter()
        .map(|(_, table)| table)
        .collect::<Result<_, _>>()?;
    let bytes: u64 = built.iter().map(|table| table.index.size_bytes()).sum();
    println!(
        "tables: {HNSW_TABLES} HNSW of {} words, {IVF_TABLES} IVF of {} words, {} MiB in all",
        built[0].index.len(),
        built[HNSW_TABLES].index.len(),
        bytes >> 20
    );
    Ok(built)
}

fn build_one(words: &Words, kind: Kind, part: usize, parts: usize) -> anyhow::Result<BuiltTable> {
    let rows = words.vectors.interleaved(part, parts);
    let name = match kind {
        Kind::Hnsw => format!("hnsw-{part}"),
        Kind::Ivf => format!("ivf-{part}"),
    };
    let index: Arc<dyn Table> = match kind {
        Kind::Hnsw => {
            let config = HnswConfig::new(Metric::Cosine).ef(EF);
            Arc::new(HnswTable::build(rows.as_slice(), rows.dim(), &config)?)
        }
        // Codes of 4 bits in lists that Faiss wrote, read without it; whole rows make the answers' distances exact, so
        // that those of the two tables can be merged.
        Kind::Ivf => {
            let file = words.lists.join(format!("{name}.faiss"));
            let lists = faiss_file::read(&file, &faiss_file::Options::default().cosine(true))?;
            let exact = FlatTable::build(rows.as_slice(), rows.dim(), Metric::Cosine)?;
            Arc::new(Refined::new(lists, exact)?)
        }
    };
    // Asked are words that the table does not hold: finding oneself would flatter the recall.
    let asked: Vec<usize> = (0..words.vectors.len())
        .filter(|word| word % parts != part)
        .take(QUERIES)
        .collect();
    let queries = words.vectors.select(&asked);
    let truth = Truth::exact(&rows, &queries, K, truth::Metric::Cosine)?;
    Ok(BuiltTable {
        name,
        kind,
        index,
        part,
        parts,
        queries,
        truth,
    })
}
