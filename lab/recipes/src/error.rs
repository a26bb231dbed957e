//! Why a workload cannot be used.

use thiserror::Error;

/// Why a workload cannot be used.
#[derive(Debug, Error)]
pub enum RecipeError {
    /// It is no built-in workload, and no file that can be read.
    #[error(
        "{name} is none of paper-hnsw, paper-ivf, flood, bulk and stall, and cannot be read as a file: {source}"
    )]
    File {
        /// What was asked for.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is no recipe.
    #[error("this is no workload: {0}")]
    Form(#[from] Box<toml::de::Error>),
    /// A value is out of range.
    #[error("{what} is {value}: give {accepted}")]
    Value {
        /// Which value.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is accepted.
        accepted: &'static str,
    },
}
