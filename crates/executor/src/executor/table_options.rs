//! A table's options: what they are, and changing them.

use chiplet_policy::TableId;

use super::Executor;
use crate::error::TableError;
use crate::options::TableOptions;

impl Executor {
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
