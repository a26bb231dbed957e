//! Workers that share a queue, and what others see of them.

use std::ops::{Index, IndexMut, Range};
use std::time::Duration;

use chiplet_policy::Neighbours;
use chiplet_policy::group::{self, Crossing, Next, PublishedLoads};
use chiplet_policy::queue::{Discipline, Pace};
use chiplet_table::Class;

use super::units::Shared;

pub(super) struct Group {
    pub(super) domain: usize,
    pub(super) workers: Range<usize>,
    pub(super) state: group::Group<usize>,
    /// Queries with units that its workers may take.
    pub(super) open: Vec<Shared>,
}

pub(super) struct Groups {
    list: Vec<Group>,
    nearest: Vec<Neighbours>,
}

impl Group {
    /// A group whose workers all sleep.
    pub(super) fn new(
        domain: usize,
        workers: Range<usize>,
        crossing: Crossing,
        discipline: Discipline,
    ) -> Self {
        let mut state = group::Group::new(crossing, discipline, workers.clone());
        for worker in workers.clone().rev() {
            let _ = state.rest(worker);
        }
        Self {
            domain,
            workers,
            state,
            open: Vec::new(),
        }
    }
}

impl Groups {
    pub(super) fn new(list: Vec<Group>, nearest: Vec<Neighbours>) -> Self {
        Self { list, nearest }
    }
}

impl Index<usize> for Groups {
    type Output = Group;

    fn index(&self, group: usize) -> &Group {
        &self.list[group]
    }
}

impl IndexMut<usize> for Groups {
    fn index_mut(&mut self, group: usize) -> &mut Group {
        &mut self.list[group]
    }
}

impl PublishedLoads for Groups {
    fn queued(&self, group: usize) -> u32 {
        self[group].state.queue.len() as u32
    }

    fn work(&self, group: usize, class: Class, pace: Pace) -> u64 {
        self[group].state.published_load().work[pace as usize][class as usize]
    }

    fn at_work_in(&self, group: usize) -> usize {
        self[group].state.queue.workers()
    }

    fn price(&self, group: usize) -> Duration {
        Duration::from_nanos(self[group].state.published_load().price)
    }

    fn next(&self, group: usize) -> Option<Next> {
        self[group].state.published_load().next
    }

    fn is_overloaded(&self, group: usize) -> bool {
        self[group].state.published_load().overloaded
    }

    fn is_any_overloaded(&self) -> bool {
        self.list
            .iter()
            .any(|group| group.state.published_load().overloaded)
    }

    fn is_spare(&self, group: usize) -> bool {
        self[group].state.published_load().spare
    }

    fn groups(&self) -> usize {
        self.list.len()
    }

    fn nearest(&self, group: usize) -> &Neighbours {
        &self.nearest[group]
    }
}
