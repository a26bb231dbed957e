//! Tables with options, and changing them.

use std::sync::Arc;

use chiplet_policy::TableId;
use chiplet_table::Table;

use super::Executor;
use crate::error::TableError;
use crate::options::TableOptions;

impl Executor {
    /// [`Executor::add_table`] with options from the beginning.
    pub fn add_table_with(
        &self,
        name: impl Into<Arc<str>>,
        table: impl Table,
        options: TableOptions,
    ) -> TableId {
        self.add_shared_table_with(name, Arc::new(table), options)
    }

    /// [`Executor::add_shared_table`] with options from the beginning.
    pub fn add_shared_table_with(
        &self,
        name: impl Into<Arc<str>>,
        table: Arc<dyn Table>,
        options: TableOptions,
    ) -> TableId {
        let memory = self.memory_of(&*table);
        self.add(name.into(), Some(table), memory, options)
    }

    /// [`Executor::add_closure_table`] with options from the beginning.
    pub fn add_closure_table_with(
        &self,
        name: impl Into<Arc<str>>,
        size_bytes: u64,
        options: TableOptions,
    ) -> TableId {
        self.add(name.into(), None, (size_bytes, None), options)
    }

    /// Changes the options of `table`, all of them, for tasks that are submitted from now on. They stay when its index
    /// is replaced.
    ///
    /// # Errors
    /// [`TableError::Unknown`] if there is no such table.
    pub fn set_table_options(
        &self,
        table: TableId,
        options: TableOptions,
    ) -> Result<(), TableError> {
        let entry = self.find(table).map_err(|_| TableError::Unknown)?;
        entry.state.options.set(options);
        Ok(())
    }

    /// The options of `table` as they are in force: a weight that was out of its range is the nearest within. `None`
    /// if there is no such table.
    pub fn table_options(&self, table: TableId) -> Option<TableOptions> {
        let entry = self.find(table).ok()?;
        Some(entry.state.options.get())
    }
}
