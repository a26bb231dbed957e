//! What copying and moving memory took, as a person or a program reads it.

use std::time::Duration;

use chiplet_bench::charts::table::Grid;
use serde::Serialize;

use crate::topology::memory::size;

/// How often each is done; the median counts.
pub(super) const TIMES: usize = 3;
/// Copies of which a smaller part lies in huge pages are told of.
const MOSTLY: f64 = 0.9;

/// What was measured. The form that programs read; its fields are a promise.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) copies: Vec<Row>,
    pub(super) left_out: Vec<LeftOut>,
    /// What the figures do not show, in words.
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) pair: Pair,
    pub(super) bytes: usize,
    pub(super) small: Taken,
    pub(super) huge: Taken,
    /// How much of the copy in huge pages lies in them, of 1; null if the system does not tell.
    pub(super) huge_share: Option<f64>,
    /// Null if nothing was moved.
    pub(super) moved: Option<Taken>,
}

/// A size for which there was no room.
#[derive(Serialize)]
pub(super) struct LeftOut {
    #[serde(flatten)]
    pub(super) pair: Pair,
    pub(super) bytes: usize,
}

/// Two nodes, or one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Pair {
    pub(super) from: u32,
    pub(super) to: u32,
}

#[derive(Serialize)]
pub(super) struct Taken {
    pub(super) milliseconds: f64,
    pub(super) gb_per_s: f64,
}

impl Pair {
    /// How many ways are measured: into small pages, into huge pages, and moved where there is another node.
    pub(super) fn ways(self) -> usize {
        if self.from == self.to { 2 } else { 3 }
    }
}

impl Taken {
    /// The median.
    pub(super) fn of(bytes: usize, mut times: [Duration; TIMES]) -> Self {
        times.sort_unstable();
        let seconds = times[TIMES / 2].as_secs_f64();
        Self {
            milliseconds: seconds * 1e3,
            gb_per_s: bytes as f64 / 1e9 / seconds,
        }
    }

    fn text(&self) -> String {
        format!("{:.1} ms {:>5.2} GB/s", self.milliseconds, self.gb_per_s)
    }
}

impl Report {
    pub(super) fn text(&self) -> String {
        let rows = self.copies.iter().map(|row| {
            let moved = row.moved.as_ref().map(Taken::text);
            [
                row.pair.from.to_string(),
                row.pair.to.to_string(),
                size(row.bytes as u64),
                row.small.text(),
                row.huge.text(),
                moved.unwrap_or_else(|| "-".to_owned()),
            ]
        });
        let caption = format!(
            "Memory from one NUMA node to another; medians of {TIMES}. A copy goes into fresh memory, so getting the \
             pages counts.\nGB/s are 10^9 bytes a second, each byte counted once.\n"
        );
        let columns = [
            "from",
            "to",
            "size",
            "copied to small pages",
            "copied to huge pages",
            "moved",
        ];
        let mut text = Grid::new(caption, columns).rows(rows).text();
        for note in self.words() {
            text.push('\n');
            text += &note;
        }
        text + "\n"
    }

    /// What else is to be said: a line each.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.copies.iter().any(|row| row.pair.from == row.pair.to) {
            words.push("There is no other node with room to move pages to.".to_owned());
        }
        for LeftOut { pair, bytes } in &self.left_out {
            words.push(format!(
                "{} from node {} to {} were left out: at most half of the free memory is taken.",
                size(*bytes as u64),
                pair.from,
                pair.to
            ));
        }
        let shares = self.copies.iter().filter_map(|row| row.huge_share);
        if let Some(least) = shares
            .min_by(f64::total_cmp)
            .filter(|least| *least < MOSTLY)
        {
            words.push(format!(
                "Of a copy to huge pages only {:.0} % lie in them: the kernel had no more at hand, or gives none\n\
                 (/sys/kernel/mm/transparent_hugepage/enabled).",
                least * 100.0
            ));
        }
        words.extend(self.notes.iter().cloned());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 16 << 20;
    const ITSELF: Pair = Pair { from: 0, to: 0 };
    const OTHER: Pair = Pair { from: 0, to: 1 };

    #[test]
    fn a_row_has_the_median_and_what_is_missing_is_said() {
        let taken = |millis: [u64; 3]| Taken::of(BYTES, millis.map(Duration::from_millis));
        let row = |pair, moved| Row {
            pair,
            bytes: BYTES,
            small: taken([8, 90, 7]),
            huge: taken([4, 4, 4]),
            huge_share: Some(0.25),
            moved,
        };
        let mut report = Report {
            copies: vec![row(OTHER, Some(taken([16, 1, 40])))],
            left_out: vec![LeftOut {
                pair: OTHER,
                bytes: 2560 << 20,
            }],
            notes: vec!["A note.".to_owned()],
        };
        let text = report.text();
        for part in [
            "0      1  16 MiB      8.0 ms  2.10 GB/s     4.0 ms  4.19 GB/s  16.0 ms  1.05 GB/s\n",
            "\n2.5 GiB from node 0 to 1 were left out",
            "25 % lie in them",
            "\nA note.\n",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        assert!(!text.contains("no other node"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["copies"][0]["to"], 1);
        assert_eq!(json["copies"][0]["small"]["milliseconds"], 8.0);
        report.copies = vec![row(ITSELF, None)];
        assert!(report.text().contains("no other node with room"));
    }
}
