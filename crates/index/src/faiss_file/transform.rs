//! The transforms before an index (`IndexPreTransform`), as one linear map of rows and queries.
//!
//! | part | holds |
//! |---|---|
//! | `LTra` (OPQ), `rrot` | the matrix |
//! | `PCAm`, `PcAm`, `Pcam` | `power f32`, of the last `epsilon f32`, `random rotation u8`, of the last two `bins i32`; means, eigenvalues and all directions, `count u64` and `f32` each; the matrix |
//! | the matrix | `has a shift u8`, `count u64` and `f32` each, `[to][from]`; the shift, `count u64` and `f32` each |
//! | `VNrm` | `norm f32` |
//! | the end of each | `from i32, to i32, trained u8` |

use super::header::{finite, flag};
use super::names;
use crate::error::BuildError;
use crate::foreign::Source;
use crate::ivf::Linear;
use crate::reserve;
use crate::rows::MAX_DIM;

/// Transforms that one index may have.
const MOST: i32 = 16;

/// How many values a map may have, for each one of the matrices that it is the product of.
const TIMES: usize = 16;

/// What happens to rows and queries first.
#[derive(Default)]
pub(super) struct Transform {
    /// They get length 1, before anything else.
    pub(super) normalizes: bool,
    pub(super) map: Option<Map>,
}

impl Transform {
    /// Whether nothing happens to them.
    pub(super) fn is_none(&self) -> bool {
        !self.normalizes && self.map.is_none()
    }
}

/// `y = matrix x + shift`.
pub(super) struct Map {
    from: usize,
    matrix: Vec<f32>,
    shift: Vec<f32>,
}

impl Map {
    pub(super) fn linear(&self) -> Linear<'_> {
        Linear {
            from: self.from,
            matrix: &self.matrix,
            shift: &self.shift,
        }
    }
}

/// Reads the transforms of an index of rows of `from`, to rows of `to`.
pub(super) fn transform(source: &mut Source<'_>, from: usize) -> Result<Transform, BuildError> {
    let count = source.i32()?;
    source.expect((0..=MOST).contains(&count), || {
        format!("it has {count} transforms, where 0 to {MOST} are possible")
    })?;
    let mut transform = Transform::default();
    let (mut dim, mut values) = (from, 0);
    for _ in 0..count {
        let letters: [u8; 4] = source.array()?;
        let step = match &letters {
            b"VNrm" if transform.map.is_none() => {
                let norm = f32::from_le_bytes(source.array()?);
                if norm != 2.0 {
                    return Err(names::unsupported(
                        "NormalizationTransform of another norm than L2",
                        "only the L2 norm is one of a table's metrics; normalise rows and queries yourself",
                    ));
                }
                transform.normalizes = true;
                None
            }
            b"PCAm" | b"PcAm" | b"Pcam" => {
                skip_pca(source, letters)?;
                Some(matrix(source)?)
            }
            b"LTra" | b"rrot" => Some(matrix(source)?),
            _ => {
                return Err(names::unsupported(
                    format!("IndexPreTransform with {}", name(letters)),
                    "linear transforms (OPQMatrix, PCAMatrix, RandomRotationMatrix, LinearTransform) are read, and an L2norm \
                     before them; apply others to rows and queries yourself",
                ));
            }
        };
        let [taken, given] = [source.i32()?, source.i32()?];
        if !flag(source, "whether it is trained")? {
            return Err(BuildError::Untrained);
        }
        let given = usize::try_from(given).unwrap_or(0);
        let fits = match &step {
            None => given == dim,
            Some(Step { matrix, shift }) => {
                (1..=MAX_DIM).contains(&given)
                    && dim.checked_mul(given) == Some(matrix.len())
                    && shift.as_ref().is_none_or(|shift| shift.len() == given)
            }
        };
        source.expect(fits && usize::try_from(taken).ok() == Some(dim), || {
            let letters = letters.escape_ascii();
            format!(
                "its transform \"{letters}\" does not take rows of {dim} components; it is damaged"
            )
        })?;
        if let Some(step) = step {
            values += step.matrix.len();
            transform.map = Some(match transform.map.take() {
                None => Map {
                    from,
                    matrix: step.matrix,
                    shift: step.shift.unwrap_or_else(|| vec![0.0; given]),
                },
                Some(map) => {
                    let product = from.checked_mul(given);
                    let product = product.filter(|&product| product / TIMES <= values);
                    let Some(product) = product else {
                        return Err(source.damaged(format!(
                            "its transforms lead from {from} components over {dim} to {given}, which one map would take too much \
                             memory for"
                        )));
                    };
                    step.after(&map, product)?
                }
            });
            dim = given;
        }
    }
    Ok(transform)
}

/// A linear transform of a chain.
struct Step {
    /// `[to][from]`.
    matrix: Vec<f32>,
    shift: Option<Vec<f32>>,
}

impl Step {
    /// This transform after `map`, in one map of `values` values.
    fn after(&self, map: &Map, values: usize) -> Result<Map, BuildError> {
        let width = map.shift.len();
        let mut matrix = reserve::room(values)?;
        let mut shift = Vec::new();
        let mut row = vec![0.0; map.from];
        for (to, weights) in self.matrix.chunks_exact(width).enumerate() {
            row.fill(0.0);
            let mut moved = f64::from(self.shift.as_ref().map_or(0.0, |shift| shift[to]));
            let before = map.matrix.chunks_exact(map.from).zip(&map.shift);
            for (&weight, (before, &before_moved)) in weights.iter().zip(before) {
                let weight = f64::from(weight);
                moved += weight * f64::from(before_moved);
                let sums = row.iter_mut().zip(before);
                sums.for_each(|(sum, &x)| *sum += weight * f64::from(x));
            }
            matrix.extend(row.iter().map(|&sum| sum as f32));
            shift.push(moved as f32);
        }
        Ok(Map {
            from: map.from,
            matrix,
            shift,
        })
    }
}

/// Passes over what a `PCAMatrix` has before its matrix.
fn skip_pca(source: &mut Source<'_>, letters: [u8; 4]) -> Result<(), BuildError> {
    let _power: [u8; 4] = source.array()?;
    if &letters == b"Pcam" {
        let _epsilon: [u8; 4] = source.array()?;
    }
    let _random_rotation = source.u8()?;
    if &letters != b"PCAm" {
        let _bins = source.i32()?;
    }
    for what in ["means", "eigenvalues", "directions"] {
        let count = source.u64()?;
        source.skip(count, 4, what)?;
    }
    Ok(())
}

fn matrix(source: &mut Source<'_>) -> Result<Step, BuildError> {
    let shifted = flag(source, "whether a transform has a shift")?;
    let matrix = finite(source, "values of a transform")?;
    let shift = finite(source, "shifts of a transform")?;
    Ok(Step {
        matrix,
        shift: shifted.then_some(shift),
    })
}

/// What Faiss' users know a transform as.
fn name(letters: [u8; 4]) -> String {
    let name = match &letters {
        b"VNrm" => "NormalizationTransform behind others",
        b"VCnt" => "CenteringTransform",
        b"RmDT" => "RemapDimensionsTransform",
        b"Viqm" => "ITQMatrix",
        b"Viqt" => "ITQTransform",
        b"HRot" => "HadamardRotation",
        _ => return format!("the transform \"{}\"", letters.escape_ascii()),
    };
    name.to_owned()
}
