//! Which pages memory comes in.

/// Which pages a region's memory is to come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pages {
    /// The smallest that the machine has, 4 KiB on most, also where the system gives huge pages to everybody.
    Small,
    /// Huge pages of 2 MiB where the kernel has them at hand, small ones otherwise (`MADV_HUGEPAGE`). Needs
    /// `/sys/kernel/mm/transparent_hugepage/enabled` at `madvise` or `always`, which is how systems come.
    #[default]
    Transparent,
    /// Huge pages of 2 MiB that were reserved with `sysctl vm.nr_hugepages`, or an error: they cannot be taken away or
    /// split. A region under 1 MiB gets small pages.
    HugeTlb,
}
