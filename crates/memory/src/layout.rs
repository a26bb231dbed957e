//! How much is mapped for a region, and where it begins: whole pages, huge ones where they are worth it.

use crate::Pages;

/// A huge page of x86-64, and of ARM with 4 KiB pages.
const HUGE: usize = 2 << 20;

/// A region from which on huge pages are used: it fills half of one.
const BIG: usize = HUGE / 2;

/// How many bytes are mapped for a region, and where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    pub(crate) align: usize,
    /// Whether huge pages come in at all.
    pub(crate) huge: bool,
}

impl Layout {
    /// `None` if no process can address so much.
    pub(crate) fn of(bytes: usize, pages: Pages, page: usize) -> Option<Self> {
        let small = bytes.checked_next_multiple_of(page);
        let huge = bytes.checked_next_multiple_of(HUGE);
        let of = |bytes: Option<usize>, align| {
            let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize - HUGE)?;
            let huge = align == HUGE;
            Some(Self { bytes, align, huge })
        };
        match pages {
            _ if bytes < BIG => of(small, page),
            Pages::Small => of(small, page),
            // A last part that fills less than half of a huge page is not worth one.
            Pages::Transparent if bytes % HUGE < BIG => of(small, HUGE),
            Pages::Transparent | Pages::HugeTlb => of(huge, HUGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_layout_wastes_less_than_half_and_less_than_a_mebibyte(
            bytes in prop_oneof![1usize..8 << 20, 1usize..1 << 40],
            page in prop_oneof![Just(4096usize), Just(16384), Just(65536)],
        ) {
            for pages in [Pages::Small, Pages::Transparent, Pages::HugeTlb] {
                let layout = Layout::of(bytes, pages, page).unwrap();
                prop_assert!(layout.bytes >= bytes && layout.bytes % page == 0);
                let waste = layout.bytes - bytes;
                match pages {
                    Pages::Small => prop_assert!(waste < page),
                    Pages::Transparent => prop_assert!(waste < page.max(BIG + 1)),
                    Pages::HugeTlb => prop_assert!(waste < HUGE && (bytes >= BIG || waste < page)),
                }
                let aligned = layout.align == HUGE;
                prop_assert_eq!(aligned, bytes >= BIG && pages != Pages::Small);
                prop_assert_eq!(layout.huge, aligned);
                if pages == Pages::HugeTlb && aligned {
                    prop_assert_eq!(layout.bytes % HUGE, 0);
                }
            }
        }

        #[test]
        fn a_size_near_the_end_of_the_address_space_has_no_layout(less in 0usize..HUGE) {
            for pages in [Pages::Small, Pages::Transparent, Pages::HugeTlb] {
                prop_assert_eq!(Layout::of(usize::MAX - less, pages, 4096), None);
                prop_assert_eq!(Layout::of(isize::MAX as usize - less, pages, 4096), None);
            }
        }
    }
}
