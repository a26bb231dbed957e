//! A table's copy in other memory.

use chiplet_table::{SearchError, Table};

use super::{FileError, Image};

impl Image {
    /// The NUMA nodes that hold it, each with how many bytes.
    pub(crate) fn residence(&self) -> Vec<(u32, u64)> {
        self.region.residence()
    }

    /// A copy, on these nodes, of the table that this is all the memory of; `open` makes a table of it. `pace` as for
    /// [`Region::copy_to`](chiplet_memory::Region::copy_to). `None` if that says stop, and for a mapped file: it was
    /// mapped so that it need not be in memory.
    pub(crate) fn copy_to<T: Table>(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
        open: impl FnOnce(Self) -> Result<T, FileError>,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        if self.region.is_mapped() {
            return Ok(None);
        }
        let copied = self.region.copy_to(nodes, pace);
        let Some(region) = copied.map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let image = Self {
            region,
            kind: self.kind.clone(),
            meta: self.meta.clone(),
            entries: self.entries.clone(),
            origin: self.origin.clone(),
        };
        let table = open(image).map_err(|error| failed(&error))?;
        Ok(Some(Box::new(table)))
    }
}

fn failed(error: &dyn std::error::Error) -> SearchError {
    SearchError::Backend(format!("its copy: {error}"))
}
