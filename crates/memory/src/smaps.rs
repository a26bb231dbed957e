//! How much of a range of addresses is in memory, from `/proc/self/smaps`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Bytes in memory of a range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// In pages of any size.
    pub(crate) resident: usize,
    /// Of these, in huge pages.
    pub(crate) huge: usize,
}

/// `None` if the file cannot be read.
pub(crate) fn measure(addresses: Range<usize>) -> Option<Measured> {
    let file = File::open("/proc/self/smaps").ok()?;
    parse(BufReader::new(file), addresses)
}

/// The share of `addresses` in what `smaps` says; `None` if it is not to be read or does not know them.
fn parse(smaps: impl BufRead, addresses: Range<usize>) -> Option<Measured> {
    let mut sum = Measured::default();
    let mut known = 0;
    // Bytes of the area that lines are about, and of ours in it.
    let (mut area, mut ours) = (0, 0);
    // Names of mapped files are any bytes.
    for line in smaps.split(b'\n') {
        let line = line.ok()?;
        let line = String::from_utf8_lossy(&line);
        if let Some(range) = area_of(&line) {
            area = range.len();
            let end = range.end.min(addresses.end);
            ours = end.saturating_sub(range.start.max(addresses.start));
            known += ours;
        } else if ours > 0
            && let Some((field, bytes)) = field_of(&line)
        {
            let share = (bytes as u128 * ours as u128 / area as u128) as usize;
            match field {
                "Rss" => sum.resident += share,
                "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => sum.huge += share,
                // Not part of Rss.
                "Private_Hugetlb" | "Shared_Hugetlb" => {
                    sum.resident += share;
                    sum.huge += share;
                }
                _ => {}
            }
        }
    }
    (known == addresses.len()).then_some(sum)
}

/// `7f0000000000-7f0000200000 rw-p ...` begins an area.
fn area_of(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    (start < end).then_some(start..end)
}

/// `Rss:     2048 kB` and its like, in bytes.
fn field_of(line: &str) -> Option<(&str, usize)> {
    let (field, rest) = line.split_once(':')?;
    let kilobytes: usize = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((field, kilobytes.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d000000000-55d000100000 r--p 00000000 08:01 12 /usr/bin/x-@
Rss:                 512 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac hg
7f0000400000-7f0000600000 rw-p 00000000 00:0f 33 /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
";

    fn share(addresses: Range<usize>) -> Option<(usize, usize)> {
        // A name may be no UTF-8.
        let named = SMAPS
            .bytes()
            .map(|byte| if byte == b'@' { 0xff } else { byte });
        let named: Vec<u8> = named.collect();
        let measured = parse(named.as_slice(), addresses)?;
        Some((measured.resident, measured.huge))
    }

    #[test]
    fn an_area_is_counted_once_and_shared_by_size() {
        const MIB: usize = 1 << 20;
        let area = 0x7f00_0000_0000;
        assert_eq!(share(area..area + 4 * MIB), Some((4 * MIB, 2 * MIB)));
        assert_eq!(share(area + MIB..area + 2 * MIB), Some((MIB, MIB / 2)));
        // Reserved huge pages, which the kernel leaves out of Rss.
        let reserved = area + 4 * MIB;
        assert_eq!(
            share(reserved..reserved + 2 * MIB),
            Some((2 * MIB, 2 * MIB))
        );
        assert_eq!(share(area..reserved + 2 * MIB), Some((6 * MIB, 4 * MIB)));
    }

    #[test]
    fn an_address_that_smaps_does_not_know_is_not_zero_bytes() {
        assert_eq!(share(0x1000..0x2000), None);
        assert_eq!(share(0x7f00_005f_f000..0x7f00_0060_1000), None);
    }
}
