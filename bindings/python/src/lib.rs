//! The Python module `chiplet._chiplet`. No scheduling, search or file format is written here: it carries the library
//! over.
//!
//! | file | holds |
//! | --- | --- |
//! | `executor` | the executor, and tables by name |
//! | `tables`, `shared`, `direct` | tables: built, opened, searched without an executor |
//! | `input`, `query`, `asked`, `hits` | what callers pass in, and what they get |
//! | `waiting` | how a thread waits |
//! | `awaited`, `wake` | what an event loop asks, and how it waits |
//! | `gil`, `ending` | Python's lock; executors at the end of the interpreter |
//! | `mapper` | tables placed on domains, both by name |
//! | `describe` | snapshots, placement and topology as dicts |
//! | `errors` | which exception an error is |
//!
//! A worker takes Python's lock for nothing but a caller's own callable (`Executor.run`).

mod asked;
mod awaited;
mod describe;
mod direct;
mod ending;
mod errors;
mod executor;
mod gil;
mod hits;
mod input;
mod mapper;
mod query;
mod shared;
mod sync;
mod tables;
mod waiting;
mod wake;

use pyo3::prelude::*;

/// What `chiplet` is made of.
#[pymodule(gil_used = false)]
mod _chiplet {
    #[pymodule_export]
    use super::ending::close_all;
    #[pymodule_export]
    use super::executor::PyExecutor;
    #[pymodule_export]
    use super::input::PyFilter;
    #[pymodule_export]
    use super::mapper::place;
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
