//! What a queue counts of all its tables.

use chiplet_table::Class;

use super::flows::{NOWHERE, Place};
use super::{Intake, Queue};
use crate::TableId;

impl<T> Queue<T> {
    /// Counts tasks of `table` as accepted that no queue had: a worker goes on with them by itself.
    pub fn count_accepted(&mut self, table: TableId, tasks: u64) {
        self.intake_mut(table).accepted += tasks;
    }

    /// Counts refused tasks of `table` and `class`: with the removed tables' if there is no memory to count them by
    /// themselves.
    pub fn count_shed(&mut self, table: TableId, class: Class, tasks: u64) {
        match self.flows.find_or_add(table, NOWHERE) {
            Ok(place) => {
                self.flows.list[place as usize].intake.shed += tasks;
                self.count_in_vain(place, class, tasks);
            }
            Err(_) => self.retired.shed += tasks,
        }
    }

    /// Counts tasks of `table` and `class` that expired while they waited.
    pub fn count_expired(&mut self, table: TableId, class: Class, tasks: u64) {
        self.intake_mut(table).expired += tasks;
        if let Some(place) = self.flows.find(table) {
            self.count_in_vain(place, class, tasks);
            self.orders[class as usize].missed(&mut self.flows, place, tasks);
        }
    }

    /// As long as none of the class has ended here, nothing is known of the time.
    pub(super) fn count_in_vain(&mut self, place: Place, class: Class, tasks: u64) {
        let service = &self.flows[(place, class as usize)].service;
        let time = service.cost_if_begun().saturating_mul(tasks);
        self.in_vain = self.in_vain.wrapping_add(time);
        let intake = &mut self.flows.list[place as usize].intake;
        intake.in_vain = intake.in_vain.wrapping_add(time);
    }

    /// The sum of all tables' [`Intake::in_vain`] so far, those included that are gone.
    pub fn in_vain(&self) -> u64 {
        self.in_vain
    }

    /// The counters of one table, which has had a task here.
    pub fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        let Ok(place) = self.flows.find_or_add(table, NOWHERE) else {
            std::process::abort()
        };
        &mut self.flows.list[place as usize].intake
    }

    /// Counters of tables that submitted here, each with how many of its queries wait: those at the next `most` places
    /// from `at` on, added to `out`. Returns where to go on, `None` at the end.
    ///
    /// So a reader of very many tables need not hold the queue for long. It may be used in between, but no table be
    /// [retired](Queue::retire).
    pub fn intake_part(
        &self,
        at: usize,
        most: usize,
        out: &mut Vec<(TableId, Intake, u64)>,
    ) -> Option<usize> {
        let places = self.flows.list.iter().skip(at).take(most);
        out.extend(places.filter_map(|row| {
            let queries = row.flows.iter().map(|flow| flow.queries).sum();
            Some((row.known()?, row.intake, queries))
        }));
        let end = at.saturating_add(most);
        (end < self.flows.list.len()).then_some(end)
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub fn retire(&mut self, table: TableId) {
        if let Some(intake) = self.flows.remove(table) {
            debug_assert_eq!(intake.leaving, 0, "its tasks have ended");
            self.retired.absorb(intake);
        }
    }

    /// Counters of tables that were removed.
    pub fn retired(&self) -> Intake {
        self.retired
    }
}
