//! Lists in groups (`IVF4096(IVF64,Flat),..`): a query looks at the groups' centroids first, then at the lists of the
//! nearest groups.

#[cfg(feature = "faiss")]
use super::factory;
#[cfg(feature = "faiss")]
use super::ffi::Ivf;
#[cfg(feature = "faiss")]
use crate::error::BuildError;
#[cfg(feature = "faiss")]
use crate::metric::Metric;

/// Lists, ordered by group.
pub(super) struct Groups {
    /// The groups' centroids, `[groups][dim]`.
    pub(super) centroids: Vec<f32>,
    /// Lists in each group; none may be in some.
    pub(super) lens: Vec<usize>,
    /// The lists, those of the first group first.
    pub(super) order: Vec<usize>,
}

#[cfg(feature = "faiss")]
impl Groups {
    /// `count` groups of the lists with these `centroids`, `[lists][dim]`: those of k-means.
    ///
    /// # Errors
    /// [`BuildError::Factory`], [`BuildError::Faiss`].
    pub(super) fn of(centroids: &[f32], dim: usize, count: usize) -> Result<Self, BuildError> {
        // Lists that are near each other go together whichever metric ranks them.
        let mut means = factory::by_name(&format!("IVF{count},Flat"), dim, Metric::L2)?;
        factory::train(&mut means, centroids)?;
        let lost = || BuildError::Faiss("k-means gave no centroids".to_owned());
        let means = Ivf::adopt(means).ok_or_else(lost)?;
        let groups = means.centroids().map_err(BuildError::Faiss)?;
        let mut members = vec![Vec::new(); count];
        for (list, centroid) in centroids.chunks_exact(dim).enumerate() {
            let nearest = groups
                .chunks_exact(dim)
                .map(|group| Metric::L2.distance(centroid, group))
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let (group, _) = nearest.ok_or_else(lost)?;
            members[group].push(list);
        }
        Ok(Self {
            centroids: groups,
            lens: members.iter().map(Vec::len).collect(),
            order: members.concat(),
        })
    }
}
