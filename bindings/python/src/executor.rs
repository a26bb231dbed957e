//! The executor: tables by name, and searches that run where their table is in cache.

use std::cell::Cell;
use std::collections::HashMap;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use chiplet::shutdown::Shutdown;
use chiplet::topology::LevelChoice;
use chiplet::{Executor, Pin, QueryLimits, SubmitError, TableId, TableOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::asked::{Asked, of_block};
use crate::awaited::{Ask, Call, What};
use crate::errors::{Class, OrRaise, Raise, class, forked};
use crate::gil::unlocked;
use crate::hits::Hits;
use crate::query::{Settings, by_name, seconds};
use crate::shared::{Shared, counted};
use crate::tables::PyTable;
use crate::{describe, ending, waiting, wake};

thread_local! {
    /// Where the executor is whose callable this thread runs, or 0.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// What a name stands for.
#[derive(Clone)]
struct Known {
    id: TableId,
    /// `None` if only callables search it.
    table: Option<Arc<Shared>>,
}

/// Runs searches where their tables are in cache. It is meant to be one for a process, shared by all threads.
///
/// max_workers: threads at most; one a core unless given.
/// reserve_cores: cores to leave to others; `free_cpus` names them.
/// pin: what a worker is tied to: its "domain", a "core", "none".
/// level: the cache that makes a domain: "auto", "l3", "l2".
/// queue_limit, queue_per_worker, table_queue_limit: searches that may wait in a domain, in all, for each of its
/// workers, of one table.
/// max_k, max_ef, max_nprobe: the most that one search may ask for.
/// bulk_weight: the weight of all bulk work while interactive searches wait, 0 to 1; 1/16 unless given.
/// memory_budget: bytes that copies of tables on other sockets may take.
/// name: what its threads' names begin with.
/// Raises `BuildError`; warns with `TopologyWarning`.
///
/// It is a context manager, which answers what was accepted and then ends its threads.
#[pyclass(frozen, weakref, subclass, module = "chiplet", name = "Executor")]
pub(crate) struct PyExecutor {
    executor: Arc<Executor>,
    tables: RwLock<HashMap<String, Known>>,
    /// The process that has its threads.
    process: u32,
    closed: AtomicBool,
}

#[pymethods]
impl PyExecutor {
    #[new]
    #[pyo3(signature = (*, max_workers=None, reserve_cores=0, pin=None, level="auto", queue_limit=None, queue_per_worker=None,
        table_queue_limit=None, max_k=None, max_ef=None, max_nprobe=None, bulk_weight=None, memory_budget=None, name=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn new(
        py: Python<'_>,
        max_workers: Option<usize>,
        reserve_cores: usize,
        pin: Option<&str>,
        level: &str,
        queue_limit: Option<usize>,
        queue_per_worker: Option<usize>,
        table_queue_limit: Option<usize>,
        max_k: Option<usize>,
        max_ef: Option<usize>,
        max_nprobe: Option<usize>,
        bulk_weight: Option<f32>,
        memory_budget: Option<u64>,
        name: Option<String>,
    ) -> PyResult<Self> {
        let level = match level {
            "auto" => LevelChoice::Auto,
            "l3" => LevelChoice::L3,
            "l2" => LevelChoice::L2,
            other => return Err(one_of("level", other, "\"auto\", \"l3\" or \"l2\"")),
        };
        let limits = QueryLimits::new()
            .max_k(max_k)
            .max_ef(max_ef)
            .max_nprobe(max_nprobe);
        let mut builder = Executor::builder()
            .level(level)
            .reserve_cores(reserve_cores)
            .limits(limits);
        if let Some(workers) = max_workers {
            builder = builder.max_workers(workers);
        }
        if let Some(pin) = pin {
            builder = builder.pin(match pin {
                "domain" => Pin::Domain,
                "core" => Pin::Core,
                "none" => Pin::None,
                other => return Err(one_of("pin", other, "\"domain\", \"core\" or \"none\"")),
            });
        }
        if let Some(tasks) = queue_limit {
            builder = builder.queue_limit(tasks);
        }
        if let Some(tasks) = queue_per_worker {
            builder = builder.queue_per_worker(tasks);
        }
        if let Some(tasks) = table_queue_limit {
            builder = builder.table_queue_limit(tasks);
        }
        if let Some(weight) = bulk_weight {
            if !(0.0..=1.0).contains(&weight) {
                return Err(PyValueError::new_err(format!(
                    "bulk_weight = {weight}; it is 0 to 1"
                )));
            }
            builder = builder.bulk_weight(weight);
        }
        if let Some(bytes) = memory_budget {
            builder = builder.memory_budget(bytes);
        }
        if let Some(name) = name {
            builder = builder.name(name);
        }
        let executor = Arc::new(unlocked(py, || builder.build()).or_raise(py)?);
        ending::remember(&executor);
        let warning = class(py, "TopologyWarning")?;
        for what in executor.topology().warnings() {
            let what = std::ffi::CString::new(what.to_string())?;
            PyErr::warn(py, &warning, &what, 1)?;
        }
        Ok(Self {
            executor,
            tables: RwLock::default(),
            process: process::id(),
            closed: AtomicBool::new(false),
        })
    }

    /// Adds a table under a name. Without `table`, callables search it (`run`), of about `size_bytes` bytes.
    ///
    /// weight: its part of a domain's time beside other tables' when there is too little, 0.01 to 100.
    /// queue_limit: searches of it that may wait in a domain, instead of the executor's `table_queue_limit`.
    /// class_: "interactive", or "bulk", which gives way for a while.
    /// Raises `NameTaken`.
    #[pyo3(signature = (name, table=None, *, weight=1.0, queue_limit=None, class_="interactive", size_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn add(
        &self,
        py: Python<'_>,
        name: String,
        table: Option<&Bound<'_, PyTable>>,
        weight: f32,
        queue_limit: Option<usize>,
        class_: &str,
        size_bytes: Option<u64>,
    ) -> PyResult<()> {
        self.usable(py)?;
        if table.is_some() && size_bytes.is_some() {
            let message =
                "size_bytes is of what callables search; a table says itself how large it is";
            return Err(PyTypeError::new_err(message));
        }
        if !(0.01..=100.0).contains(&weight) {
            return Err(PyValueError::new_err(format!(
                "weight = {weight}; it is 0.01 to 100"
            )));
        }
        let options = TableOptions::new()
            .weight(weight)
            .queue_limit(queue_limit)
            .class(by_name(class_)?);
        let table = table.map(|table| Arc::clone(&table.get().shared));
        unlocked(py, || {
            let mut tables = self.names_mut();
            if tables.contains_key(&name) {
                return Err(name);
            }
            let id = match &table {
                Some(shared) => {
                    let table = Arc::clone(&shared.table);
                    self.executor.add_table_with(&*name, table, options)
                }
                None => {
                    let bytes = size_bytes.unwrap_or(0);
                    let id = self.executor.add_closure_table(&*name, bytes);
                    // It has just been added.
                    let _ = self.executor.set_table_options(id, options);
                    id
                }
            };
            tables.insert(name, Known { id, table });
            Ok(())
        })
        .map_err(|name| {
            let message =
                format!("there is a table {name:?} already; replace it, or choose another name");
            Class::NameTaken.with(py, message)
        })
    }

    /// Puts another table in the place of the one of that name, of as many components and the same metric. Searches
    /// that were accepted before end on the old one.
    fn replace(&self, py: Python<'_>, name: &str, table: &Bound<'_, PyTable>) -> PyResult<()> {
        self.usable(py)?;
        let shared = Arc::clone(&table.get().shared);
        let known = self.known(py, name)?;
        if let Some(old) = known.table
            && old.kind() != shared.kind()
        {
            let message = format!(
                "table {name:?} is of {}, the other of {}; remove it and add the other, or choose another name",
                old.kind(),
                shared.kind()
            );
            return Err(Class::Query.with(py, message));
        }
        let id = known.id;
        let replaced = unlocked(py, || {
            self.executor.replace_table(id, Arc::clone(&shared.table))
        });
        replaced.map_err(|refused| refused.reason.raise(py))?;
        let table = Some(shared);
        // Dropped outside of the lock.
        let _old = self
            .names_mut()
            .insert(name.to_owned(), Known { id, table });
        Ok(())
    }

    /// Removes the table of that name. Searches that were accepted before are answered.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.usable(py)?;
        let id = self.known(py, name)?.id;
        unlocked(py, || self.executor.remove_table(id)).or_raise(py)?;
        let _old = self.names_mut().remove(name);
        Ok(())
    }

    /// Names of the tables, sorted.
    #[getter]
    fn tables(&self) -> Vec<String> {
        let tables = self.names();
        let mut names: Vec<String> = tables.keys().cloned().collect();
        names.sort();
        names
    }

    /// The nearest rows to one vector or to each of many. Python's lock is free meanwhile.
    #[doc = include_str!("search.md")]
    #[doc = include_str!("serve.md")]
    #[pyo3(signature = (name, q, k=None, *, ef=None, nprobe=None, radius=None, filter=None, deadline=None, class_=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn search(
        &self,
        py: Python<'_>,
        name: &str,
        q: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
        filter: Option<&Bound<'_, PyAny>>,
        deadline: Option<f64>,
        class_: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let settings = Settings::new(py, k, ef, nprobe, radius)?.served(py, deadline, class_)?;
        let (table, mut asked) = self.asked(py, name, q, settings, filter)?;
        let k = asked.settings.k;
        match asked.query() {
            Some(query) => {
                let found = waiting::answer(py, self.executor.search(table, query))?;
                Hits::of_one(&found.or_raise(py)?, k).or_raise(py)?
            }
            None => self.many(py, table, &asked)?,
        }
        .into_python(py)
    }

    /// The nearest rows to each of any number of vectors. Queues are fed as they empty: it is not refused for its
    /// length, and other searches come through. If one query cannot be answered, its error is raised and says which.
    #[doc = include_str!("search.md")]
    #[doc = include_str!("serve.md")]
    #[pyo3(signature = (name, q, k=None, *, ef=None, nprobe=None, radius=None, filter=None, deadline=None, class_=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn search_batch(
        &self,
        py: Python<'_>,
        name: &str,
        q: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
        filter: Option<&Bound<'_, PyAny>>,
        deadline: Option<f64>,
        class_: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let settings = Settings::new(py, k, ef, nprobe, radius)?.served(py, deadline, class_)?;
        let (table, asked) = self.asked(py, name, q, settings, filter)?;
        asked.rows.must_be_many("search_batch", "search")?;
        self.many(py, table, &asked)?.into_python(py)
    }

    /// The nearest rows to one vector in several tables of one metric, as the shards of a collection are: those of all
    /// together. Each table is searched on its own home. Gives `HitsOver(ids, distances, tables)`: `tables` says of
    /// each row which of `names` it is of, and is -1 where there is none.
    #[doc = include_str!("search.md")]
    #[doc = include_str!("serve.md")]
    #[pyo3(signature = (names, q, k=None, *, ef=None, nprobe=None, radius=None, filter=None, deadline=None, class_=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn search_over(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        q: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
        filter: Option<&Bound<'_, PyAny>>,
        deadline: Option<f64>,
        class_: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let settings = Settings::new(py, k, ef, nprobe, radius)?.served(py, deadline, class_)?;
        let k = settings.k;
        let (mut tables, mut metrics, mut asked) = (Vec::new(), Vec::new(), None);
        for name in &names {
            let (table, mut one) = self.asked(py, name, q, settings.clone(), filter)?;
            tables.push(table);
            metrics.push(one.metric);
            asked = one.query();
        }
        if metrics.windows(2).any(|two| two[0] != two[1]) {
            let message =
                "the tables differ in metric, so their distances do not compare; ask for each";
            return Err(Class::Query.with(py, message));
        }
        let Some(query) = asked else {
            let message =
                "search_over takes one vector, [dim], and the names of tables, at least one";
            return Err(PyTypeError::new_err(message));
        };
        let gathered = self.executor.submit_over(&tables, &query);
        let gathered = gathered.map_err(|refused| refused.error.raise(py))?;
        Hits::over(py, waiting::until(py, gathered)?, &tables, k)
    }

    /// What `asearch` and `asearch_batch` await.
    #[pyo3(signature = (name, q, k, ef, nprobe, radius, filter, deadline, class_, batch_and_refuse, /))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn _asearch(
        &self,
        py: Python<'_>,
        name: &str,
        q: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
        filter: Option<&Bound<'_, PyAny>>,
        deadline: Option<f64>,
        class_: Option<&str>,
        batch_and_refuse: (bool, bool),
    ) -> PyResult<Py<PyAny>> {
        let (batch, refuse) = batch_and_refuse;
        let settings = Settings::new(py, k, ef, nprobe, radius)?.served(py, deadline, class_)?;
        let (table, mut asked) = self.asked(py, name, q, settings, filter)?;
        if batch {
            asked.rows.must_be_many("asearch_batch", "asearch")?;
        }
        let running = wake::running(py)?;
        let what = match asked.query() {
            Some(query) => What::Query(query),
            None => What::Block(asked.block(py)?),
        };
        wake::promise(&running, self.ask(table, what), refuse)
    }

    /// Calls `fn(*args, **kwargs)` on a worker of the table's home and returns what it returns. It holds Python's lock
    /// as any code does; what it calls of C or Rust usually lets it go.
    #[pyo3(signature = (name, code, /, *args, **kwargs))]
    fn run(
        &self,
        py: Python<'_>,
        name: &str,
        code: Py<PyAny>,
        args: Py<PyTuple>,
        kwargs: Option<Py<PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let table = self.known(py, name)?.id;
        let call = self.call(code, args, kwargs);
        let ticket = self.executor.submit_fn(table, None, call);
        let ticket = ticket.map_err(|refused| refused.reason.raise(py))?;
        waiting::answer(py, ticket)?.or_raise(py)?
    }

    /// What `arun` awaits.
    #[pyo3(signature = (name, code, /, *args, **kwargs))]
    fn _arun(
        &self,
        py: Python<'_>,
        name: &str,
        code: Py<PyAny>,
        args: Py<PyTuple>,
        kwargs: Option<Py<PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let table = self.known(py, name)?.id;
        let running = wake::running(py)?;
        let what = What::Call(self.call(code, args, kwargs));
        wake::promise(&running, self.ask(table, what), false)
    }

    /// Counters, latencies and homes of all tables and domains.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.usable(py)?;
        let snapshot = unlocked(py, || self.executor.snapshot());
        describe::as_python(py, &snapshot)
    }

    /// Which domains are home to which table.
    fn placement(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.own(py)?;
        let tables = self.names();
        let names = tables.iter().map(|(name, known)| (name.as_str(), known.id));
        describe::placement(py, &self.executor.placement(), names)
    }

    /// The machine: its domains, their cores and caches.
    fn topology(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        describe::topology(py, self.executor.topology())
    }

    /// Cpus that no worker is tied to, for the caller's own threads.
    #[getter]
    fn free_cpus(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.own(py)?;
        Ok(self.executor.free_cpus())
    }

    /// Ends it: answers what it has accepted, or with `drain=False` only what has begun. After `timeout` seconds the
    /// rest is left.
    #[pyo3(signature = (*, drain=true, timeout=None))]
    fn close(&self, py: Python<'_>, drain: bool, timeout: Option<f64>) -> PyResult<()> {
        let patience = timeout.map(|timeout| seconds("timeout", timeout));
        let patience = patience.unwrap_or(Ok(Duration::MAX))?;
        if INSIDE.get() == Arc::as_ptr(&self.executor) as usize {
            let message = "a callable that runs on a worker cannot close its own executor; return, and close it then";
            return Err(Class::Failed.with(py, message));
        }
        self.closed.store(true, Ordering::Relaxed);
        let stopping = self.executor.shutdown_async(match drain {
            true => Shutdown::Drain(patience),
            false => Shutdown::Abandon(patience),
        });
        waiting::until(py, stopping).map(drop)
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().usable(py)?;
        Ok(slf)
    }

    /// Raises `TypeError`: its threads stay where they are.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "an executor cannot be pickled; make one in each process, and open tables there",
        ))
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py, true, None)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        if self.own(py).is_err() {
            return "Executor(of another process)".to_owned();
        }
        let domains = self.executor.topology().domains().len();
        let workers = self.executor.workers().len();
        let tables = self.tables().len();
        let closed = match self.closed.load(Ordering::Relaxed) {
            true => ", closed",
            false => "",
        };
        let [workers, domains, tables] =
            [(workers, "worker"), (domains, "domain"), (tables, "table")]
                .map(|(count, thing)| counted(count as u64, thing));
        format!("Executor({workers} in {domains}, {tables}{closed})")
    }
}

impl PyExecutor {
    fn known(&self, py: Python<'_>, name: &str) -> PyResult<Known> {
        let tables = self.names();
        tables.get(name).cloned().ok_or_else(|| {
            let message = format!("there is no table {name:?}; add it first");
            Class::UnknownTable.with(py, message)
        })
    }

    /// What a search asks for and of which table, refused if it cannot be answered.
    fn asked<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        q: &Bound<'py, PyAny>,
        settings: Settings,
        filter: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(TableId, Asked<'py>)> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(SubmitError::ShuttingDown.raise(py));
        }
        let known = self.known(py, name)?;
        let Some(table) = known.table else {
            return Err(SubmitError::NotSearchable.raise(py));
        };
        Ok((known.id, Asked::of(&table, q, settings, filter)?))
    }

    /// Answers to all rows, in their order.
    fn many(&self, py: Python<'_>, table: TableId, asked: &Asked<'_>) -> PyResult<Hits> {
        let ticket = self.executor.search_block(table, asked.block(py)?);
        let answers = waiting::answer(py, ticket)?.or_raise(py)?;
        of_block(py, asked.settings.k, answers)
    }

    fn names(&self) -> RwLockReadGuard<'_, HashMap<String, Known>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn names_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, Known>> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what an executor of another process cannot do.
    fn own(&self, py: Python<'_>) -> PyResult<()> {
        match process::id() == self.process {
            true => Ok(()),
            false => Err(forked(py)),
        }
    }

    /// Refuses what a closed executor, or one of another process, cannot do.
    fn usable(&self, py: Python<'_>) -> PyResult<()> {
        self.own(py)?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(SubmitError::ShuttingDown.raise(py));
        }
        Ok(())
    }

    fn ask(&self, table: TableId, what: What) -> Ask {
        let executor = Arc::clone(&self.executor);
        Ask {
            executor,
            table,
            what,
        }
    }

    /// A callable as a worker calls it.
    fn call(&self, code: Py<PyAny>, args: Py<PyTuple>, kwargs: Option<Py<PyDict>>) -> Call {
        let own = Arc::as_ptr(&self.executor) as usize;
        Box::new(move |_| {
            INSIDE.set(own);
            let returned =
                Python::attach(|py| code.call(py, args, kwargs.as_ref().map(|k| k.bind(py))));
            INSIDE.set(0);
            returned
        })
    }
}

impl Drop for PyExecutor {
    fn drop(&mut self) {
        Python::attach(|py| ending::end(py, &self.executor));
    }
}

fn one_of(setting: &str, given: &str, accepted: &str) -> PyErr {
    PyValueError::new_err(format!("{setting} is {given:?}; it is {accepted}"))
}
