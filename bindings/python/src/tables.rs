//! Tables as Python sees them: what all kinds can do, and how each is made.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;

use chiplet::index::{
    AnyTable, BuildError, BuildOptions, Fit, FlatTable, HnswConfig, HnswTable, Metric, Pages,
    Progress, RowFormat, faiss_file,
};
use chiplet::{Table, index};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::asked::Asked;
use crate::direct;
use crate::errors::{Class, OrRaise};
use crate::gil::{Asking, unlocked};
use crate::hits::signed;
use crate::input::{self, Rows};
use crate::query::Settings;
use crate::shared::{Shared, counted, metric_name, metric_of};

/// A table of vectors, of whatever kind. It never changes, so any number of threads may search it, and forked children
/// too.
#[pyclass(frozen, subclass, module = "chiplet", name = "Table")]
pub(crate) struct PyTable {
    pub(crate) shared: Arc<Shared>,
}

impl PyTable {
    fn table(&self) -> &AnyTable {
        &self.shared.table
    }
}

/// A graph (HNSW): low latency at high recall.
#[pyclass(frozen, extends = PyTable, module = "chiplet", name = "Hnsw")]
pub(crate) struct PyHnsw;

/// Inverted lists (IVF) that Faiss trained: for large or compressed tables.
#[pyclass(frozen, extends = PyTable, module = "chiplet", name = "Ivf")]
pub(crate) struct PyIvf;

/// Exact search over all rows: for small tables, and as the truth to compare with.
#[pyclass(frozen, extends = PyTable, module = "chiplet", name = "Flat")]
pub(crate) struct PyFlat;

#[pymethods]
impl PyTable {
    /// Components of each row.
    #[getter]
    fn dim(&self) -> usize {
        self.table().dim()
    }

    /// "l2", "cosine" or "ip".
    #[getter]
    fn metric(&self) -> &'static str {
        metric_name(self.table().metric())
    }

    /// Bytes of memory that the table takes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.table().size_bytes()
    }

    fn __len__(&self) -> usize {
        self.table().len()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let kind = slf.get_type().name()?;
        let table = slf.get().table();
        Ok(format!(
            "{kind}({} of {}, {}, {:.1} MiB)",
            counted(table.len() as u64, "row"),
            table.dim(),
            metric_name(table.metric()),
            table.size_bytes() as f64 / f64::from(1 << 20)
        ))
    }

    /// Searches without an executor: one vector on the calling thread, many on `threads` that live for the call, all
    /// cores unless given. Python's lock is free meanwhile.
    #[doc = include_str!("search.md")]
    #[pyo3(signature = (q, k=None, *, ef=None, nprobe=None, radius=None, filter=None, threads=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn search(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
        filter: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Py<PyAny>> {
        let settings = Settings::new(py, k, ef, nprobe, radius)?;
        let asked = Asked::of(&self.shared, q, settings, filter)?;
        if threads == Some(0) {
            return Err(Class::Query.with(py, "threads = 0; it must be at least 1"));
        }
        direct::search(py, self.table(), asked, threads)?.into_python(py)
    }

    /// The ids of all rows, in no order.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let ids = self.shared.ids(py)?;
        let ids = unlocked(py, || {
            ids.into_iter().map(signed).collect::<Result<Vec<_>, _>>()
        });
        Ok(PyArray1::from_vec(py, ids.or_raise(py)?))
    }

    /// Whether there is a row of this id. The first such question reads all ids.
    fn __contains__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        match id.extract::<u64>() {
            Ok(id) => Ok(self.shared.place(py, id)?.is_some()),
            Err(_) => Ok(false),
        }
    }

    /// The rows of these ids as the table keeps them, `[n][dim]` of float32: rounded to its format, and of length 1 for
    /// "cosine". The first call reads all ids.
    /// Raises `QueryError` for an id that there is not, and where codes are kept in the place of rows.
    fn vectors<'py>(&self, py: Python<'py>, ids: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let ids = input::ids(ids)?;
        let place = |&id: &u64| {
            let unknown = || Class::Query.with(py, format!("there is no row of id {id}"));
            self.shared.place(py, id)?.ok_or_else(unknown)
        };
        let places: Vec<usize> = ids.iter().map(place).collect::<PyResult<_>>()?;
        let rows = unlocked(py, || {
            let rows = places.iter().map(|&place| self.table().row(place));
            rows.collect::<Option<Vec<_>>>().map(|rows| rows.concat())
        });
        let rows = rows.ok_or_else(|| {
            let message = "this table keeps codes and not its rows; keep these yourself, or build it with \",RFlat\" behind";
            Class::Query.with(py, message)
        })?;
        let shape = [ids.len(), self.table().dim()];
        Ok(PyArray1::from_vec(py, rows).reshape(shape)?.into_any())
    }

    /// Raises `TypeError`: a table has a file of its own.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a table cannot be pickled; save() it, and open() it in the other process, with mmap=True to share its memory",
        ))
    }

    /// Writes the table to `path`, replacing a file that is there only when all is written.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        unlocked(py, || self.table().save(path)).or_raise(py)
    }

    /// Compares all checksums of a mapped table with its file: reads all of it.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        unlocked(py, || self.table().verify()).or_raise(py)
    }
}

#[pymethods]
impl PyHnsw {
    /// Builds a graph over `x`, `[n][dim]`.
    ///
    /// metric: "l2", "cosine" or "ip".
    /// m: links of a row, twice as many on the ground layer. ef_construction: candidates of a build.
    /// ef: candidates of a search that does not say.
    /// rows: how rows are kept: "f32", "f16", "bf16", "sq8", "sq4", "sq2", "sq1"; f32 unless given. rerank: the format
    /// of rows that the best are compared with once more.
    /// fit: the share of the nearest ten that a search must be able to find, as 0.95: of the formats that are not given
    /// it takes those of the fewest bits that do, by a sample of the rows.
    /// ids: one a row, int64 from 0 on; row numbers unless given.
    /// threads: all cores unless given.
    /// progress: called with (stage, done, total); what it raises ends the build, as Ctrl-C does.
    /// Raises `BuildError`, with the row and component of what is not finite.
    #[staticmethod]
    #[pyo3(signature = (x, *, metric="l2", m=16, ef_construction=200, ef=None, rows=None, rerank=None, fit=None, ids=None, threads=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn build(
        x: &Bound<'_, PyAny>,
        metric: &str,
        m: usize,
        ef_construction: usize,
        ef: Option<usize>,
        rows: Option<&str>,
        rerank: Option<&str>,
        fit: Option<f64>,
        ids: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<Self>> {
        let py = x.py();
        let mut config = HnswConfig::new(metric_of(metric)?)
            .m(m)
            .ef_construction(ef_construction);
        if let Some(rows) = rows {
            config = config.rows(format(rows)?);
        }
        if let Some(recall) = fit {
            config = config.fit(Fit::recall(recall));
        }
        if let Some(rerank) = rerank {
            config = config.rerank(format(rerank)?);
        }
        if let Some(ef) = ef {
            config = config.ef(ef);
        }
        let threads = threads.or_else(|| thread::available_parallelism().ok().map(Into::into));
        if let Some(threads) = threads {
            config = config.threads(threads);
        }
        let built = built(x, ids, progress, |x, dim, options| {
            HnswTable::build_with(x, dim, &config, options).map(AnyTable::Hnsw)
        })?;
        new(py, built, Self)
    }

    /// How the rows are kept that a search walks over, and those that the best are compared with once more, if there
    /// are any.
    #[getter]
    fn formats(slf: PyRef<'_, Self>) -> (String, Option<String>) {
        match slf.as_super().table() {
            AnyTable::Hnsw(graph) => (
                graph.row_format().to_string(),
                graph.rerank_format().map(|format| format.to_string()),
            ),
            _ => (RowFormat::default().to_string(), None),
        }
    }

    /// A table of an index that hnswlib saved; ids are its labels. The file does not say the metric: hnswlib's space
    /// "l2", "ip" or "cosine".
    #[staticmethod]
    #[pyo3(signature = (path, dim, *, metric="l2", ef=None))]
    fn from_hnswlib(
        py: Python<'_>,
        path: PathBuf,
        dim: usize,
        metric: &str,
        ef: Option<usize>,
    ) -> PyResult<Py<Self>> {
        let mut config = HnswConfig::new(metric_of(metric)?);
        if let Some(ef) = ef {
            config = config.ef(ef);
        }
        let table = unlocked(py, || {
            let table = HnswTable::from_hnswlib(&path, dim, &config)?;
            let too_large = |id: &u64| signed(*id).is_err();
            match table.ids().into_iter().find(too_large) {
                None => Ok::<_, BuildError>(table),
                Some(label) => Err(BuildError::File {
                    path,
                    reason: format!(
                        "label {label} does not fit in int64, as ids are in Python; give elements labels below 2**63"
                    ),
                }),
            }
        });
        new(py, AnyTable::Hnsw(table.or_raise(py)?), Self)
    }
}

#[pymethods]
impl PyIvf {
    /// Has the faiss-cpu that is installed train an index of that description on `x`, and makes a table of it.
    ///
    /// factory: Faiss' words, as "IVF1024,SQ8" or "IVF1024,PQ32x4fs". nprobe: lists of a search that does not say.
    /// Raises `ImportError` without faiss-cpu, and `BuildError`, with the row and component of what is not finite.
    #[staticmethod]
    #[pyo3(signature = (x, factory, *, metric="l2", nprobe=16, ids=None))]
    fn build(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        factory: &str,
        metric: &str,
        nprobe: usize,
        ids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let kind = metric_of(metric)?;
        let rows = Rows::of_table(x)?;
        let (values, dim) = (rows.values()?, rows.dim());
        // What Faiss throws in a thread of its own ends the process, so it sees no row that might make it.
        let prepared = unlocked(py, || kind.prepare_rows(values, dim)).or_raise(py)?;
        let shape = [values.len() / dim, dim];
        let prepared = match prepared {
            Cow::Borrowed(_) => rows.array()?,
            Cow::Owned(scaled) => PyArray1::from_vec(py, scaled).reshape(shape)?.into_any(),
        };
        let trainer = py.import("chiplet._faiss")?.getattr("train")?;
        let index = trainer.call1((prepared, factory, metric, nprobe, ids))?;
        from_faiss(&index, Some(metric))
    }
}

#[pymethods]
impl PyFlat {
    /// A table of the rows `x`, `[n][dim]`. metric, ids and progress are those of `Hnsw.build`.
    #[staticmethod]
    #[pyo3(signature = (x, *, metric="l2", ids=None, progress=None))]
    fn build(
        x: &Bound<'_, PyAny>,
        metric: &str,
        ids: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<Self>> {
        let metric = metric_of(metric)?;
        let built = built(x, ids, progress, |x, dim, options| {
            FlatTable::build_with(x, dim, metric, options).map(AnyTable::Flat)
        })?;
        new(x.py(), built, Self)
    }
}

/// Opens the file of a table, whatever kind it is. With `mmap` it serves from the file's pages at once: nobody may
/// write to the file meanwhile (`save` may replace it).
#[pyfunction]
#[pyo3(name = "open", signature = (path, *, mmap=false))]
pub(crate) fn open_file(py: Python<'_>, path: PathBuf, mmap: bool) -> PyResult<Py<PyAny>> {
    let table = match mmap {
        false => unlocked(py, || index::open(path, Pages::default())),
        // SAFETY: the caller answers for the file, as the docstring says.
        #[expect(unsafe_code, reason = "the caller answers for the file")]
        true => unlocked(py, || unsafe { index::open_mapped(path) }),
    };
    any(py, table.or_raise(py)?)
}

/// A table of a Faiss index: the index itself, what `faiss.serialize_index` made of it, or the path of a file that
/// `faiss.write_index` wrote. Files and bytes need no Faiss.
#[pyfunction]
#[pyo3(signature = (index, *, metric=None))]
pub(crate) fn from_faiss(index: &Bound<'_, PyAny>, metric: Option<&str>) -> PyResult<Py<PyAny>> {
    let py = index.py();
    let cosine = metric.map(metric_of).transpose()? == Some(Metric::Cosine);
    let options = faiss_file::Options::default().cosine(cosine);
    let read = if let Ok(bytes) = index.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        unlocked(py, || faiss_file::read_bytes(bytes, &options))
    } else if let Ok(path) = index.extract::<PathBuf>() {
        unlocked(py, || faiss_file::read(path, &options))
    } else {
        let bytes = py
            .import("chiplet._faiss")?
            .call_method1("serialized", (index,))?;
        return from_faiss(&bytes, metric);
    };
    let table = read.or_raise(py)?;
    let (found, metric) = (metric_name(table.metric()), metric.unwrap_or_default());
    if !metric.is_empty() && metric != found {
        let message = format!(
            "the index is one of metric {found:?}, not {metric:?}; leave the metric out, or build it anew"
        );
        return Err(Class::Build.with(py, message));
    }
    any(py, table)
}

/// Builds a table of `x`, asking Python for its signals and telling `progress` how far it has come.
fn built<T: Send>(
    x: &Bound<'_, PyAny>,
    ids: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
    build: impl FnOnce(&[f32], usize, BuildOptions<'_>) -> Result<T, BuildError> + Send,
) -> PyResult<T> {
    let py = x.py();
    let rows = Rows::of_table(x)?;
    let ids = ids.map(input::ids).transpose()?;
    let (values, dim) = (rows.values()?, rows.dim());
    // What a signal or the callback has raised.
    let mut raised = None;
    let outcome = unlocked(py, || {
        let report = |at| {
            let Some(_asking) = Asking::begin() else {
                return ControlFlow::Break(());
            };
            let told = Python::attach(|py| tell(py, progress.as_ref(), at));
            told.map_or_else(
                |why| {
                    raised = Some(why);
                    ControlFlow::Break(())
                },
                ControlFlow::Continue,
            )
        };
        let mut options = BuildOptions::new().report(report);
        if let Some(ids) = &ids {
            options = options.ids(ids);
        }
        build(values, dim, options)
    });
    match raised {
        Some(why) => Err(why),
        None => outcome.or_raise(py),
    }
}

fn tell(py: Python<'_>, progress: Option<&Py<PyAny>>, at: Progress) -> PyResult<()> {
    py.check_signals()?;
    if let Some(progress) = progress {
        progress.call1(py, (at.stage.to_string(), at.done, at.total))?;
    }
    Ok(())
}

/// The class of `table`'s kind.
fn any(py: Python<'_>, table: AnyTable) -> PyResult<Py<PyAny>> {
    Ok(match &table {
        AnyTable::Hnsw(_) => new(py, table, PyHnsw)?.into_any(),
        AnyTable::Ivf(_) => new(py, table, PyIvf)?.into_any(),
        _ => new(py, table, PyFlat)?.into_any(),
    })
}

fn new<T: PyClass<BaseType = PyTable>>(
    py: Python<'_>,
    table: AnyTable,
    kind: T,
) -> PyResult<Py<T>> {
    let shared = Arc::new(Shared::new(table));
    Py::new(
        py,
        PyClassInitializer::from(PyTable { shared }).add_subclass(kind),
    )
}

fn format(name: &str) -> PyResult<RowFormat> {
    name.parse()
        .map_err(|why: <RowFormat as FromStr>::Err| PyValueError::new_err(why.to_string()))
}
