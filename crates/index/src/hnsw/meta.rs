//! What a graph's file says of its sections, and the check that makes it safe to believe.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

use super::format::{FewBits, Grid, Grids, RowFormat};
use super::packed;
use super::walk::{FOLLOWED_A_STEP, MAX_NODES};

/// Links that a node of a file may have.
pub(super) const MAX_STRIDE: usize = 1 << 16;

/// Layers that a file may have: at least two nodes less each makes no more than this in practice.
const MAX_LAYERS: usize = 64;

/// What the sections mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meta {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) rows: RowFormat,
    pub(super) full: Option<RowFormat>,
    /// Nodes of each layer, the ground layer first.
    pub(super) layers: Vec<usize>,
    pub(super) ground_stride: usize,
    pub(super) stride: usize,
    /// Bytes of a link: 3 or 4.
    #[serde(default = "unpacked")]
    pub(super) link_bytes: usize,
    /// Bytes of an id: 4 or 8.
    pub(super) id_bytes: usize,
    /// The step of 8-bit codes.
    pub(super) step: f32,
    /// Whether 8-bit rows have a constant.
    #[serde(default = "with_constants")]
    pub(super) constants: bool,
    /// What codes of 4 bits and fewer stand for, if there are any. (Files have its name from when there were no fewer.)
    #[serde(default, rename = "nibbles", skip_serializing_if = "Option::is_none")]
    pub(super) few: Option<FewMeta>,
    /// Candidates kept by a query that does not say how many.
    pub(super) ef: usize,
    /// Whether a search looks at one list of links on each higher layer, and not on for as long as it gets nearer.
    #[serde(default)]
    pub(super) one_look: bool,
    /// Whether a walk follows one node a step, as in the library that built the graph.
    #[serde(default)]
    pub(super) one_by_one: bool,
}

fn unpacked() -> usize {
    packed::UNPACKED
}

fn with_constants() -> bool {
    true
}

/// What codes of 4 bits and fewer stand for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FewMeta {
    /// Their step.
    pub(super) step: f32,
    /// Whether rows are rotated first.
    pub(super) rotated: bool,
}

impl Meta {
    pub(super) fn nodes(&self) -> usize {
        self.layers.first().copied().unwrap_or(0)
    }

    /// Nodes that a walk follows in one step.
    pub(super) fn followed_a_step(&self) -> usize {
        if self.one_by_one { 1 } else { FOLLOWED_A_STEP }
    }

    /// Whether rows are kept in `format`, for the walk or for re-ranking.
    pub(super) fn has(&self, format: RowFormat) -> bool {
        [Some(self.rows), self.full].contains(&Some(format))
    }

    pub(super) fn grids<'a>(&self, low: &'a [f32], low4: &'a [f32]) -> Grids<'a> {
        let FewMeta { step, rotated } = self.few.unwrap_or(FewMeta {
            step: 1.0,
            rotated: false,
        });
        Grids {
            bytes: Grid {
                low,
                step: self.step,
            },
            constants: self.constants,
            few: FewBits {
                width: self.rows.few_bits().unwrap_or_default(),
                grid: Grid { low: low4, step },
                rotated,
            },
        }
    }

    /// Bytes from one row in `format` to the next.
    pub(super) fn row_bytes(&self, format: RowFormat) -> usize {
        format.stride_with(self.dim, self.constants)
    }

    /// Links of the ground, and of all other layers.
    pub(super) fn links(&self) -> [usize; 2] {
        let upper: usize = self.layers.iter().skip(1).sum();
        [self.nodes() * self.ground_stride, upper * self.stride]
    }

    /// Checks what a file says, so that no size computed of it overflows and no search reads beyond a section.
    pub(super) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: usize, range: std::ops::RangeInclusive<usize>| {
            if range.contains(&value) {
                return Ok(());
            }
            let (least, most) = range.into_inner();
            Err(format!(
                "{name} is {value}, which must be {least} to {most}"
            ))
        };
        for format in [Some(self.rows), self.full].into_iter().flatten() {
            within("dim", self.dim, 1..=format.most_components())?;
        }
        within("ground_stride", self.ground_stride, 1..=MAX_STRIDE)?;
        within("stride", self.stride, 1..=MAX_STRIDE)?;
        within("ef", self.ef, 1..=usize::MAX)?;
        within("link_bytes", self.link_bytes, 3..=packed::UNPACKED)?;
        within("the number of layers", self.layers.len(), 1..=MAX_LAYERS)?;
        within("the number of rows", self.nodes(), 0..=MAX_NODES)?;
        // A search begins at the first node of the highest layer, so each has one.
        for (&below, &nodes) in self.layers.iter().zip(&self.layers[1..]) {
            within("a higher layer's number of nodes", nodes, 1..=below)?;
        }
        if !matches!(self.id_bytes, 4 | 8) {
            return Err(format!(
                "ids have {} bytes, which must be 4 or 8",
                self.id_bytes
            ));
        }
        if !self.step.is_finite() {
            return Err("the step of 8-bit codes is no finite number".to_owned());
        }
        if self.few.is_some() != self.rows.few_bits().is_some() {
            return Err("rows of few bits without a step, or a step without such rows".to_owned());
        }
        let usable = |step: f32| step > 0.0 && step.is_finite() && (1.0 / step).is_finite();
        if self.few.is_some_and(|few| !usable(few.step)) {
            return Err("the step of rows of few bits is no number above 0".to_owned());
        }
        let always = self.rows.few_bits().is_some_and(FewBits::always_rotated);
        if always && self.few.is_some_and(|few| !few.rotated || few.step != 1.0) {
            return Err(format!(
                "rows of {} are not rotated, or have a step",
                self.rows
            ));
        }
        if !self.rows.can_be_alone(self.full)
            && let Err((value, accepted)) = self.rows.check_rerank(self.full)
        {
            return Err(format!("full is {value}, which must be {accepted}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_few_bits_is_checked() {
        let few = Some(FewMeta {
            step: 1.0,
            rotated: true,
        });
        let meta = |rows, few| Meta {
            metric: Metric::L2,
            dim: 24,
            rows,
            full: Some(RowFormat::F16),
            layers: vec![3],
            ground_stride: 8,
            stride: 4,
            link_bytes: 3,
            id_bytes: 4,
            step: 1.0,
            constants: true,
            few,
            ef: 10,
            one_look: false,
            one_by_one: false,
        };
        let with = |step, rotated| Some(FewMeta { step, rotated });
        for rows in [RowFormat::Sq4, RowFormat::Sq2, RowFormat::Sq1] {
            assert_eq!(meta(rows, few).check(), Ok(()));
            assert!(meta(rows, None).check().is_err());
            for step in [0.0, -1.0, 1e-40, f32::NAN, f32::INFINITY] {
                assert!(meta(rows, with(step, true)).check().is_err(), "{step}");
            }
            let alone = Meta {
                full: None,
                ..meta(rows, few)
            };
            // As `HnswConfig::inside_refined` lets it be.
            let refined = rows == RowFormat::Sq4;
            assert_eq!(alone.check().is_ok(), refined, "without a second copy");
            let twice = Meta {
                full: Some(rows),
                ..meta(rows, few)
            };
            assert!(twice.check().is_err(), "a second copy of as few bits");
        }
        assert_eq!(meta(RowFormat::Sq4, with(0.25, false)).check(), Ok(()));
        for rows in [RowFormat::Sq2, RowFormat::Sq1] {
            assert!(meta(rows, with(1.0, false)).check().is_err());
            assert!(meta(rows, with(0.25, true)).check().is_err());
        }
        assert!(meta(RowFormat::Sq8, few).check().is_err(), "no such rows");
    }
}
