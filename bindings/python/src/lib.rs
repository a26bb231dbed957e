//! The Python module `chiplet._chiplet`. No scheduling, search or file format is written here: it carries the library over.
//!
//! | file | holds |
//! | --- | --- |
//! | `executor` | the executor, tables by name, waiting |
//! | `wake` | answers for event loops |
//! | `tables`, `direct` | tables: built, opened, searched without an executor |
//! | `input`, `query`, `hits` | what callers pass in, and what they get |
//! | `describe` | snapshots, placement and topology as dicts |
//! | `errors` | which exception an error is |
//!
//! A worker takes Python's lock for nothing but a caller's own callable (`Executor.run`).

mod describe;
mod direct;
mod errors;
mod executor;
mod hits;
mod input;
mod query;
mod tables;
mod wake;

use pyo3::prelude::*;

/// What `chiplet` is made of.
#[pymodule(gil_used = false)]
mod _chiplet {
    #[pymodule_export]
    use super::executor::{PyExecutor, close_all};
    #[pymodule_export]
    use super::input::PyFilter;
    #[pymodule_export]
    use super::tables::{PyFlat, PyHnsw, PyIvf, PyTable, from_faiss, open_file};
    #[pymodule_export]
    use super::wake::Loop;
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
