//! An image in the making: first sizes, then content.

use std::iter;
use std::ops::Range;

use bytemuck::Pod;
use chiplet_memory::{ALIGNMENT, MemoryError, MemoryPolicy, Region};
use serde::Serialize;

use super::{Entry, FileError, Image, Section, described};

/// Sections that an image is to have.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    entries: Vec<Entry>,
    /// Whether the sections exceed any address space.
    too_large: bool,
}

/// An image that is being filled. It starts as zeros.
#[derive(Debug)]
pub(crate) struct ImageMut {
    region: Region,
    entries: Vec<Entry>,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a section of `bytes` bytes. A size that no memory has is reported by [`Draft::allocate`].
    ///
    /// # Panics
    /// If there is a section of that name.
    pub(crate) fn add(&mut self, name: &'static str, bytes: usize) -> Section {
        let twice = self.entries.iter().any(|entry| *entry.name == *name);
        assert!(!twice, "two sections {name:?}");
        let last = self.entries.last().map(|entry| entry.section);
        let start = start_after(last);
        let section = match start.filter(|start| start.checked_add(bytes).is_some()) {
            Some(start) => Section { start, bytes },
            None => {
                self.too_large = true;
                Section { start: 0, bytes: 0 }
            }
        };
        self.entries.push(Entry {
            name: name.into(),
            section,
            sum: None,
        });
        section
    }

    /// Memory for all of them, zeroed.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub(crate) fn allocate(self, memory: impl Into<MemoryPolicy>) -> Result<ImageMut, MemoryError> {
        let bytes = if self.too_large {
            usize::MAX
        } else {
            total(&self.entries)
        };
        Ok(ImageMut {
            region: Region::new(bytes, memory)?,
            entries: self.entries,
        })
    }
}

impl ImageMut {
    /// A section's values, to be written.
    ///
    /// # Panics
    /// If it is another draft's and does not fit, or holds no whole number of `T`.
    pub(crate) fn section_mut<T: Pod>(&mut self, section: Section) -> &mut [T] {
        let bytes = self.region.as_mut_slice();
        let bytes = bytes.expect("a draft's region is its own memory");
        bytemuck::cast_slice_mut(&mut bytes[section.start..section.end()])
    }

    /// Makes the image constant. `meta` is what the table must know of itself to be loaded again; it is kept as JSON,
    /// where a NaN or infinite number becomes `null`.
    ///
    /// # Errors
    /// [`FileError::Description`] if `meta` is nothing that JSON can say.
    pub(crate) fn freeze(
        self,
        kind: &'static str,
        meta: &impl Serialize,
    ) -> Result<Image, FileError> {
        Ok(Image {
            region: self.region,
            kind: kind.into(),
            meta: described(meta)?,
            entries: self.entries,
            origin: None,
        })
    }
}

/// Where the section after `last` begins; `None` beyond the address space.
pub(super) fn start_after(last: Option<Section>) -> Option<usize> {
    last.map_or(Some(0), |last| {
        last.end().checked_next_multiple_of(ALIGNMENT)
    })
}

/// Bytes of all sections and what lies between them.
pub(super) fn total(entries: &[Entry]) -> usize {
    entries.last().map_or(0, |entry| entry.section.end())
}

/// What lies between the sections.
pub(super) fn gaps(entries: &[Entry]) -> impl Iterator<Item = Range<usize>> {
    let starts = entries.iter().skip(1).map(|entry| entry.section.start);
    iter::zip(entries, starts).map(|(before, start)| before.section.end()..start)
}
