//! Why a workload cannot be used.

use thiserror::Error;

/// Why a workload cannot be used.
#[derive(Debug, Error)]
pub enum RecipeError {
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
