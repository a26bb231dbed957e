//! From a Faiss index in memory to lists of the table's own.

use std::borrow::Cow;

use super::adopt::{self, Extras, Parts};
use super::config::Settings;
use super::ffi::Ivf;
use super::groups::Groups;
use super::store::Store;
use crate::error::BuildError;
use crate::progress::Watch;

/// The centroids and lists of `ivf`, found through so many `groups`; `None` if its codes are left to Faiss.
///
/// # Errors
/// [`BuildError::Factory`] (groups that k-means cannot make), [`BuildError::Faiss`], [`BuildError::Memory`],
/// [`BuildError::Stopped`].
pub(super) fn store(
    ivf: &Ivf,
    settings: &Settings,
    groups: Option<usize>,
    extras: Extras<'_>,
    watch: &Watch<'_>,
) -> Result<Option<Store>, BuildError> {
    let Some(codes) = ivf.codes() else {
        return Ok(None);
    };
    let Some(coded) = codes.coded(ivf.dim()) else {
        return Ok(None);
    };
    // Lists are numbered in four bytes, and a quantizer may rank by another metric than its index, which is Faiss'
    // affair.
    let metric = settings.metric.of_faiss();
    if ivf.quantizer_metric() != Some(metric) || u32::try_from(ivf.lists()).is_err() {
        return Ok(None);
    }
    let centroids = ivf.centroids().map_err(BuildError::Faiss)?;
    let groups = groups.map(|groups| Groups::of(&centroids, ivf.dim(), groups));
    let groups = groups.transpose()?;
    let parts = Parts {
        dim: ivf.dim(),
        centroids,
        ids: (0..ivf.lists()).map(|list| ivf.list_ids(list)).collect(),
    };
    let list = |list| {
        let list = ivf.list_codes(list, codes.bytes);
        list.map(Cow::Owned).map_err(BuildError::Faiss)
    };
    adopt::store(parts, &coded, groups, settings, extras, watch, list).map(Some)
}
