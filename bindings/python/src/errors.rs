//! chiplet's errors as Python's, by what a caller can do about them. The classes are Python's (`chiplet/_errors.py`).

use chiplet::index;
use chiplet::{Error, SearchError, SubmitError, TableError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyType};

/// An exception class of `chiplet._errors`.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Build,
    Closed,
    Expired,
    Failed,
    File,
    Forked,
    MissingFile,
    NameTaken,
    Query,
    UnknownTable,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Build => "BuildError",
            Self::Closed => "Closed",
            Self::Expired => "Expired",
            Self::Failed => "Failed",
            Self::File => "FileError",
            Self::Forked => "Forked",
            Self::MissingFile => "MissingFile",
            Self::NameTaken => "NameTaken",
            Self::Query => "QueryError",
            Self::UnknownTable => "UnknownTable",
        }
    }

    /// An exception of this class.
    pub(crate) fn with(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        raise(py, self.name(), (message.into(),))
    }
}

/// The exception `name` of `chiplet._errors`, made of `arguments`.
fn raise<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = class(py, name).and_then(|class| class.call1(arguments));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        PyModule::import(py, "chiplet._errors").map(Bound::unbind)
    })?;
    Ok(module.bind(py).getattr(name)?.cast_into()?)
}

/// An error of the library as an exception.
pub(crate) trait Raise {
    fn raise(self, py: Python<'_>) -> PyErr;
}

/// A result whose error is one of the library's.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.raise(py))
    }
}

impl Raise for SubmitError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        let class = match self {
            Self::Overloaded { .. }
            | Self::TableOverloaded { .. }
            | Self::TableClosed
            | Self::OutOfMemory => {
                let wait = self.expected_wait().map(|wait| wait.as_secs_f64());
                return raise(py, "Overloaded", (message, wait));
            }
            Self::UnknownTable => Class::UnknownTable,
            Self::NotSearchable => {
                let message = "only callables search this table; use run, or add one with a table";
                return Class::Query.with(py, message);
            }
            Self::OverLimit {
                parameter,
                asked,
                limit,
            } => {
                let message = format!(
                    "{parameter} = {asked} is over the limit of {limit}; ask for less, or give the executor a higher max_{parameter}"
                );
                return Class::Query.with(py, message);
            }
            Self::WrongDimension { .. } | Self::RaggedRows { .. } | Self::WrongFilters { .. } => {
                Class::Query
            }
            Self::ShuttingDown => Class::Closed,
            Self::Forked => return forked(py),
            _ => Class::Failed,
        };
        class.with(py, message)
    }
}

/// What a forked child is told. A child that is spawned builds its own executor.
pub(crate) fn forked(py: Python<'_>) -> PyErr {
    let message = "this process is a fork of the one that built the executor, and has none of its threads; build an \
                   executor after the fork, or start processes with multiprocessing.get_context(\"spawn\"). Tables that \
                   were built before the fork can be searched here by their own search()";
    Class::Forked.with(py, message)
}

impl Raise for SearchError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match self.is_callers() {
            true => Class::Query,
            false => Class::Failed,
        };
        class.with(py, self.to_string())
    }
}

impl Raise for Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Refused(reason) => reason.raise(py),
            Self::Search(reason) => reason.raise(py),
            Self::Expired => Class::Expired.with(py, self.to_string()),
            Self::ShutDown => Class::Closed.with(py, self.to_string()),
            Self::WouldDeadlock => Class::Failed.with(
                py,
                "a callable that runs on a worker may not wait for its own executor; return, and search then",
            ),
            _ => Class::Failed.with(py, self.to_string()),
        }
    }
}

impl Raise for TableError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Unknown => Class::UnknownTable.with(py, self.to_string()),
            Self::Forked => forked(py),
            _ => Class::Build.with(py, self.to_string()),
        }
    }
}

impl Raise for index::BuildError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            Self::File { .. } => Class::File,
            _ => Class::Build,
        };
        class.with(py, self.to_string())
    }
}

impl Raise for index::FileError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        let Self::Io { path, source, .. } = self else {
            return Class::File.with(py, message);
        };
        // ENOENT, which the system did not say if the folder was looked at first.
        let (class, errno) = match source.kind() {
            std::io::ErrorKind::NotFound => (Class::MissingFile, Some(2)),
            _ => (Class::File, source.raw_os_error()),
        };
        let error = class.with(py, message);
        let value = error.value(py);
        // As of any other OSError. That they cannot be set is no reason to say less.
        let _ = value.setattr("errno", errno);
        let _ = value.setattr("filename", path);
        error
    }
}

impl Raise for chiplet::BuildError {
    fn raise(self, py: Python<'_>) -> PyErr {
        Class::Build.with(py, self.to_string())
    }
}
