//! Sets of cpus in the forms the kernel writes: lists (`0-7,64-71`) and masks (`00000000,000000ff`).
//!
//! What is read is bounded: a number over [`MAX_CPU`] is an error before anything is allocated for
//! it, so that a damaged file cannot ask for gigabytes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(crate) type CpuSet = BTreeSet<u32>;

/// The largest cpu number that is believed. The largest `CONFIG_NR_CPUS` a Linux architecture
/// allows is 8192 (x86 with MAXSMP, powerpc); eight times that leaves room for gaps.
pub(crate) const MAX_CPU: u32 = 65_535;

/// Why a list or mask of cpus cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuSetError {
    /// Not a number, a range or a mask.
    #[error(
        "\"{0}\" is not a list of cpus such as 0-7,64-71, nor a mask such as 00000000,000000ff"
    )]
    Syntax(String),
    /// A range that runs backwards.
    #[error("the cpu range {0}-{1} runs backwards")]
    Backwards(u64, u64),
    /// A list that names cpus over and over.
    #[error("the list names {0} cpus, far more than there are; it is damaged")]
    Repeated(u64),
    /// More cpus than any machine has.
    #[error("cpu {0} is beyond {max}, the largest number that is believed", max = MAX_CPU)]
    TooLarge(u64),
}

/// Reads a list such as `0-3,8,10-14:2`; a stride follows the colon, white space around is ignored,
/// and the empty list is empty.
pub fn parse_list(text: &str) -> Result<BTreeSet<u32>, CpuSetError> {
    let mut cpus = CpuSet::new();
    let mut named = 0;
    for item in text
        .trim()
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (range, stride) = item.split_once(':').unwrap_or((item, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| syntax(item));
        let (first, last) = (number(first)?, number(last)?);
        // The kernel's own form is first-last:used/group; plain strides have used = 1.
        let (used, group) = match stride.split_once('/') {
            Some((used, group)) => (number(used)?, number(group)?),
            None => (1, number(stride)?),
        };
        if last < first {
            return Err(CpuSetError::Backwards(first, last));
        }
        if last > u64::from(MAX_CPU) {
            return Err(CpuSetError::TooLarge(last));
        }
        if group == 0 {
            return Err(syntax(item));
        }
        // Kernels name a cpu once. A long list of all cpus over and over would take hours.
        named += last - first + 1;
        if named > 4 * u64::from(MAX_CPU) {
            return Err(CpuSetError::Repeated(named));
        }
        cpus.extend(
            (first..=last)
                .filter(|cpu| (cpu - first) % group < used)
                .map(|cpu| cpu as u32),
        );
    }
    Ok(cpus)
}

/// Reads a mask of 32-bit words in hexadecimal, the highest first, such as `00000001,ffffffff`.
pub fn parse_mask(text: &str) -> Result<BTreeSet<u32>, CpuSetError> {
    let text = text.trim();
    let mut cpus = CpuSet::new();
    let words: Vec<&str> = text.split(',').collect();
    for (index, word) in words.iter().rev().enumerate() {
        let word = word.trim();
        let word = word.strip_prefix("0x").unwrap_or(word);
        // An empty word is a zero word: an entirely empty mask is what some kernels write.
        let mut bits = match word {
            "" => 0,
            _ if word.len() > 8 && words.len() > 1 => return Err(syntax(text)),
            _ => u128::from_str_radix(word, 16).map_err(|_| syntax(text))?,
        };
        while bits != 0 {
            let cpu = index as u64 * 32 + u64::from(bits.trailing_zeros());
            if cpu > u64::from(MAX_CPU) {
                return Err(CpuSetError::TooLarge(cpu));
            }
            cpus.insert(cpu as u32);
            bits &= bits - 1;
        }
    }
    Ok(cpus)
}

fn syntax(text: &str) -> CpuSetError {
    // A message quotes the start of a damaged file, not all of it.
    let mut quoted: String = text.chars().take(60).collect();
    if quoted.len() < text.len() {
        quoted.push_str("...");
    }
    CpuSetError::Syntax(quoted)
}

/// Writes cpu numbers as ranges, the way the kernel and `taskset -c` do: `0-3,8`. The numbers may
/// come in any order; none at all give `none`.
///
/// ```
/// assert_eq!(chiplet_topology::cpu_ranges(&[8, 0, 1, 2, 3]), "0-3,8");
/// assert_eq!(chiplet_topology::cpu_ranges(&[]), "none");
/// ```
pub fn cpu_ranges<'a>(cpus: impl IntoIterator<Item = &'a u32>) -> String {
    let cpus: CpuSet = cpus.into_iter().copied().collect();
    if cpus.is_empty() {
        return "none".to_owned();
    }
    let mut text = String::new();
    let mut rest = cpus.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|&cpu| cpu == last + 1) {
            last = next;
        }
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a String cannot fail.
        let _ = if first == last {
            write!(text, "{first}")
        } else {
            write!(text, "{first}-{last}")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(cpus: &CpuSet) -> String {
        let words = cpus.last().map_or(1, |last| last / 32 + 1);
        let word = |w: u32| {
            (0..32)
                .filter(|bit| cpus.contains(&(w * 32 + bit)))
                .fold(0u32, |m, bit| m | 1 << bit)
        };
        (0..words)
            .rev()
            .map(|w| format!("{:08x}", word(w)))
            .collect::<Vec<_>>()
            .join(",")
    }

    proptest! {
        #[test]
        fn lists_and_masks_read_back_what_was_written(cpus in prop::collection::btree_set(0..9000u32, 1..40)) {
            prop_assert_eq!(&parse_list(&cpu_ranges(&cpus)).unwrap(), &cpus);
            prop_assert_eq!(&parse_mask(&mask(&cpus)).unwrap(), &cpus);
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in "[0-9a-fx,:/ -]{0,40}|\\PC{0,40}") {
            let _ = (parse_list(&text), parse_mask(&text));
        }
    }

    #[test]
    fn the_forms_that_kernels_write_are_read() {
        let set = |cpus: &[u32]| cpus.iter().copied().collect::<CpuSet>();
        assert_eq!(parse_list("0-2,8\n"), Ok(set(&[0, 1, 2, 8])));
        assert_eq!(parse_list("\n"), Ok(set(&[])));
        assert_eq!(parse_list("0-7:2/4"), Ok(set(&[0, 1, 4, 5])));
        assert_eq!(parse_mask("00000001,80000000\n"), Ok(set(&[31, 32])));
        assert_eq!(parse_mask("f\n"), Ok(set(&[0, 1, 2, 3])));
        assert_eq!(parse_mask(""), Ok(set(&[])));
    }

    #[test]
    fn a_damaged_list_is_an_error_and_allocates_nothing_for_it() {
        assert_eq!(
            parse_list("0-4294967295"),
            Err(CpuSetError::TooLarge(4_294_967_295))
        );
        assert_eq!(parse_list("7-3"), Err(CpuSetError::Backwards(7, 3)));
        assert!(matches!(parse_list("0-"), Err(CpuSetError::Syntax(_))));
        assert!(matches!(
            parse_list("99999999999999999999"),
            Err(CpuSetError::Syntax(_))
        ));
        assert!(matches!(parse_mask("xyz"), Err(CpuSetError::Syntax(_))));
        let again = "0-65535,".repeat(5);
        assert!(matches!(parse_list(&again), Err(CpuSetError::Repeated(_))));
        let far = format!("1{}", ",00000000".repeat(3000));
        assert_eq!(parse_mask(&far), Err(CpuSetError::TooLarge(96_000)));
    }
}
