//! Why a table could not be built.

use std::path::PathBuf;

use crate::metric::Metric;

/// Why a table could not be built or adopted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Vectors without components.
    #[error("dimension 0: a vector needs at least one component")]
    ZeroDimension,
    /// A dimension the index library cannot express.
    #[error("dimension {dim} is more than the index supports ({limit})")]
    DimensionTooLarge {
        /// The dimension asked for.
        dim: usize,
        /// The largest one supported.
        limit: usize,
    },
    /// `rows` does not hold whole rows.
    #[error(
        "{values} values are no whole number of rows of {dim}; pass rows one after the other, [n][{dim}]"
    )]
    RaggedRows {
        /// Values passed.
        values: usize,
        /// Components of a row.
        dim: usize,
    },
    /// A NaN or infinite component.
    #[error("row {row} has {value} at component {component}; every component must be finite")]
    NotFinite {
        /// The row's number or id.
        row: usize,
        /// The component's index in the row.
        component: usize,
        /// Its value.
        value: f32,
    },
    /// A row so long that its distances do not fit in an `f32`.
    #[error(
        "row {row} has norm {norm:e}, over {limit:e} squared distances overflow f32; scale all rows down"
    )]
    RowTooLong {
        /// The row's number or id.
        row: usize,
        /// Its Euclidean norm.
        norm: f64,
        /// The largest norm accepted, [`MAX_NORM`](crate::MAX_NORM).
        limit: f64,
    },
    /// A graph built with `hnsw::Cosine` over a row that is not of length 1 (or 0).
    #[error(
        "row {row} has norm {norm}, a cosine graph needs rows of length 1; pass each through `normalized` before inserting it"
    )]
    NotNormalized {
        /// The row's id.
        row: usize,
        /// Its Euclidean norm.
        norm: f64,
    },
    /// A setting outside its range.
    #[error("{setting} is {value}, it must be {accepted}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// More rows than a table can have.
    #[error("{rows} rows are more than a table can have ({limit}); make several tables of them")]
    TooManyRows {
        /// Rows passed.
        rows: usize,
        /// The most accepted.
        limit: usize,
    },
    /// Another number of ids than of rows.
    #[error("{ids} ids were passed for {rows} rows; pass one for each")]
    IdCount {
        /// Ids passed.
        ids: usize,
        /// Rows passed.
        rows: usize,
    },
    /// An id that two rows were given.
    #[error("id {id} is given twice: to row {first} and row {second}; all ids must differ")]
    IdTwice {
        /// The id.
        id: u64,
        /// The number of its first row.
        first: usize,
        /// The number of its second row.
        second: usize,
    },
    /// A key that two values were given for.
    #[error("key {key} is given twice: value {first} and value {second}")]
    KeyTwice {
        /// The key.
        key: u64,
        /// The number of its first value.
        first: usize,
        /// The number of its second value.
        second: usize,
    },
    /// A value of another length than all others.
    #[error("the value of key {key} has {bytes} bytes; all values have {wanted}")]
    ValueLength {
        /// The key.
        key: u64,
        /// Bytes of its value.
        bytes: usize,
        /// Bytes of each value.
        wanted: usize,
    },
    /// A component too large for the format that rows are stored in.
    #[error(
        "row {row} has {value:e} at component {component}, {format} holds at most {limit}; store rows as bf16, or scale them down"
    )]
    OutOfRange {
        /// The row's number.
        row: usize,
        /// The component's index in the row.
        component: usize,
        /// Its value.
        value: f32,
        /// The format's name.
        format: &'static str,
        /// The largest value it holds.
        limit: f32,
    },
    /// Rows too small for the format that they are stored in: more than one in a hundred would change by more than a
    /// hundredth of its length.
    #[error(
        "row {row} has a length of {norm:e}, of which {format} would lose more than a hundredth, as of {rows} rows in all; scale rows up, or store as bf16 what f16 does not hold"
    )]
    TooSmall {
        /// The number of the first such row.
        row: usize,
        /// Its Euclidean norm.
        norm: f64,
        /// How many such rows there are.
        rows: usize,
        /// The format's name.
        format: &'static str,
    },
    /// Rows that none of the formats asked for can hold so that enough of the nearest are found.
    #[error(
        "no row format finds {recall} of the nearest {top}{within}: {tried}; ask for less, allow more bytes, or leave the formats to the build"
    )]
    Fit {
        /// The share that was to be found.
        recall: f64,
        /// How many of the nearest rows count.
        top: usize,
        /// The bytes that the table may take, if that was limited.
        within: String,
        /// The formats tried, and what each finds or takes.
        tried: String,
    },
    /// A graph that is to be adopted cannot be searched, or is none of the rows, ids and metric that it comes with.
    #[error("{reason}")]
    Graph {
        /// What is wrong, and what is accepted.
        reason: String,
    },
    /// A file of another library that cannot be read, or is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file; `<bytes>` for bytes in memory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused a thread.
    #[error("{asked} threads were asked for and one could not be started: {reason}; ask for fewer")]
    Threads {
        /// Threads asked for.
        asked: usize,
        /// What the system said.
        reason: String,
    },
    /// Not the description of an IVF index.
    #[error(
        "{factory:?} describes no IVF index: {reason}; accepted is IVF<lists>,<code>, for example \"IVF256,Flat\", \"IVF256,SQ8\", \"IVF256,PQ16x4fs\", \"IVF256,PQ16x4fs,RFlat\" or \"IVF256_HNSW32,Flat\""
    )]
    Factory {
        /// The factory string given.
        factory: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A Faiss index of a kind that cannot be adopted.
    #[error("a Faiss index of kind {kind:?} cannot be a table: {reason}")]
    UnsupportedIndex {
        /// The class, of an index that was read; else Faiss' four-letter code for it, as it writes it to files.
        kind: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Too few rows to train on.
    #[error(
        "{rows} rows cannot train {lists} inverted lists; pass at least {lists} rows (better 39 for each list), or ask for fewer lists"
    )]
    TooFewRows {
        /// Rows passed.
        rows: usize,
        /// Inverted lists to train.
        lists: usize,
    },
    /// An adopted IVF index was never trained.
    #[error("the Faiss index is not trained; train it and add rows before making a table of it")]
    Untrained,
    /// The report of the build's progress said so ([`BuildOptions::report`](crate::BuildOptions::report)).
    #[error("the build was stopped by its report")]
    Stopped,
    /// There is no memory for the table.
    #[error(transparent)]
    Memory(#[from] chiplet_memory::MemoryError),
    /// Faiss reported an error.
    #[error("Faiss: {0}")]
    Faiss(String),
}

/// That a graph cannot be adopted.
pub(crate) fn bad_graph(reason: String) -> BuildError {
    BuildError::Graph { reason }
}

/// Refuses a graph that was built for another metric than the one asked for.
pub(crate) fn same_metric(graph: Metric, asked: Metric) -> Result<(), BuildError> {
    if graph == asked {
        return Ok(());
    }
    Err(bad_graph(format!(
        "the graph was built for {graph:?} and {asked:?} was asked for; pass a configuration for {graph:?}"
    )))
}

/// Refuses a setting of 0.
pub(crate) fn at_least_one(setting: &'static str, value: usize) -> Result<(), BuildError> {
    if value == 0 {
        return Err(BuildError::Setting {
            setting,
            value: value.to_string(),
            accepted: "at least 1",
        });
    }
    Ok(())
}
