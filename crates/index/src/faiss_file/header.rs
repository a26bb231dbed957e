//! What every index begins with.

use super::names;
use crate::error::BuildError;
use crate::foreign::Source;
use crate::metric::Metric;
use crate::rows::MAX_DIM;

/// What an index says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// What Faiss' users know it as.
    pub(super) class: &'static str,
    /// `1..=MAX_DIM`.
    pub(super) dim: usize,
    /// Not believed before that many rows were read.
    pub(super) rows: u64,
    /// [`Metric::L2`] or [`Metric::InnerProduct`].
    pub(super) metric: Metric,
}

/// Reads the header of an index of this `class`, behind its letters.
pub(super) fn header(source: &mut Source<'_>, class: &'static str) -> Result<Header, BuildError> {
    let dim = source.i32()?;
    let rows = source.i64()?;
    let _unused: [u8; 16] = source.array()?;
    let trained = flag(source, "whether it is trained")?;
    let metric = source.i32()?;
    if metric > 1 {
        let _argument: [u8; 4] = source.array()?;
    }
    let dim = usize::try_from(dim).ok();
    let dim = dim.filter(|dim| (1..=MAX_DIM).contains(dim));
    let (Some(dim), Ok(rows)) = (dim, u64::try_from(rows)) else {
        return Err(source.damaged(format!(
            "an {class} of it claims {rows} rows of {} components",
            dim.map_or("no possible number of".to_owned(), |dim| dim.to_string())
        )));
    };
    let metric = match metric {
        0 => Metric::InnerProduct,
        1 => Metric::L2,
        _ => {
            return Err(names::unsupported(
                class,
                "its metric is neither METRIC_L2 nor METRIC_INNER_PRODUCT",
            ));
        }
    };
    if !trained {
        return Err(BuildError::Untrained);
    }
    Ok(Header {
        class,
        dim,
        rows,
        metric,
    })
}

/// A byte that is 0 or 1.
pub(super) fn flag(source: &mut Source<'_>, what: &str) -> Result<bool, BuildError> {
    let byte = source.u8()?;
    source.expect(byte <= 1, || {
        format!("{byte} stands where it says {what}, which is 0 or 1; it is damaged")
    })?;
    Ok(byte == 1)
}

/// Values behind their number.
pub(super) fn list<T: crate::foreign::Little>(
    source: &mut Source<'_>,
    what: &str,
) -> Result<Vec<T>, BuildError> {
    let count = source.u64()?;
    source.values(count, what)
}

/// [`list`], of numbers all of which must be finite.
pub(super) fn finite(source: &mut Source<'_>, what: &str) -> Result<Vec<f32>, BuildError> {
    let values = list::<f32>(source, what)?;
    source.expect(values.iter().all(|value| value.is_finite()), || {
        format!("its {what} are not all finite; it is damaged")
    })?;
    Ok(values)
}
