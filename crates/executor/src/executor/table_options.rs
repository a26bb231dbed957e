//! What can be changed of a table besides its index: its options, and the size that it is placed by.

use chiplet_policy::TableId;

use super::Executor;
use crate::error::TableError;
use crate::options::TableOptions;

impl Executor {
    /// Changes the options of `table`, all of them, for tasks that are submitted from now on. They stay when its index
    /// is replaced.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn set_table_options(
        &self,
        table: TableId,
        options: TableOptions,
    ) -> Result<(), TableError> {
        let entry = self.find_to_change(table)?;
        entry.state.options.set(options);
        Ok(())
    }

    /// Says that `table` takes `size_bytes` bytes from now on: for tables that grow or shrink in place, with an index
    /// of the caller's own or searched by closures alone. Placement uses the new size from the next remap on.
    ///
    /// An index is asked for its size only when it is added or replaces another. Call this when it has changed by a
    /// tenth or so; it takes a lock that queries do not.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(2, 2, 32 << 20)).build()?;
    /// let log = executor.add_closure_table("log", 0);
    /// // Rows have been written.
    /// executor.set_table_size(log, 64 << 20)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TableError`].
    pub fn set_table_size(&self, table: TableId, size_bytes: u64) -> Result<(), TableError> {
        self.find_to_change(table)?;
        self.balancer
            .planner(|planner| planner.set_size(table, size_bytes));
        Ok(())
    }

    /// The options of `table` as they are in force: a weight that was out of its range is the nearest within. `None`
    /// if there is no such table.
    pub fn table_options(&self, table: TableId) -> Option<TableOptions> {
        let entry = self.find(table).ok()?;
        Some(entry.state.options.get())
    }
}
