//! The executor's rules, and those with one of them changed.

use chiplet::{Builder, PlannerConfig, SplitConfig};
use chiplet_policy::PlaceBy;

#[derive(Clone, Copy, Debug)]
pub enum Rules {
    Default,
    /// Queries start in the order in which they came: no runs of one table.
    Fifo,
    /// Scan units never leave their domain.
    Local,
    /// As `Local`, and tables are placed by the bytes that they pull.
    ByBytes,
}

impl Rules {
    pub const ALL: [Self; 4] = [Self::Fifo, Self::ByBytes, Self::Local, Self::Default];

    /// An executor of these rules, with `planner`'s settings besides.
    pub fn configure(self, builder: Builder, planner: PlannerConfig) -> Builder {
        let local = SplitConfig::new().stream_caches(None);
        let by_bytes = planner.mapper.placing(PlaceBy::Traffic);
        match self {
            Self::Default => builder.planner(planner),
            Self::Fifo => builder.planner(planner).run_length(1),
            Self::Local => builder.planner(planner).split(local),
            Self::ByBytes => builder.planner(planner.mapper(by_bytes)).split(local),
        }
    }
}
