//! Why a search fails.

/// Why a table could not answer a query.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query vector has the wrong number of components.
    #[error("the query has {got} components, the table's vectors have {expected}")]
    WrongDimension {
        /// Components of the table's vectors.
        expected: usize,
        /// Components of the query.
        got: usize,
    },
    /// A component of the query is NaN or infinite.
    #[error("component {position} of the query is {value}; every component must be finite")]
    NotFinite {
        /// Index of the first such component.
        position: usize,
        /// Its value.
        value: f32,
    },
    /// The query is so long that its distances do not fit in an `f32`.
    #[error("the query's norm is {norm:e}; over {limit:e} distances overflow f32, scale it down")]
    TooLong {
        /// Euclidean norm of the query.
        norm: f64,
        /// The largest norm the table accepts.
        limit: f64,
    },
    /// `top(0)`.
    #[error("top(0) asks for no neighbours; ask for at least one")]
    ZeroTop,
    /// `nprobe(0)`.
    #[error("nprobe(0) visits no list; ask for at least one")]
    ZeroProbes,
    /// `radius(NaN)`.
    #[error("radius(NaN) is no distance; leave it out to ask for rows at any distance")]
    NoRadius,
    /// The search was given up: [`Context::check`](crate::Context::check) said that nobody waits for it any more.
    #[error("the search was stopped, as nobody waits for its answer any more")]
    Stopped,
    /// The index has not been trained.
    #[error("the index is not trained; train it before it is searched")]
    Untrained,
    /// The index library reported an error.
    #[error("the index failed: {0}")]
    Backend(String),
}

impl SearchError {
    /// Whether the query itself is wrong, so that asking again will not help: what a service answers with "invalid
    /// argument". Else the table or its index is at fault, or the search was given up.
    ///
    /// ```
    /// use chiplet_table::SearchError;
    /// assert!(SearchError::ZeroTop.is_callers());
    /// assert!(!SearchError::Untrained.is_callers());
    /// ```
    pub fn is_callers(&self) -> bool {
        // Named one by one, so that a new one is thought about.
        match self {
            Self::WrongDimension { .. }
            | Self::NotFinite { .. }
            | Self::TooLong { .. }
            | Self::ZeroTop
            | Self::ZeroProbes
            | Self::NoRadius => true,
            Self::Stopped | Self::Untrained | Self::Backend(_) => false,
        }
    }
}
