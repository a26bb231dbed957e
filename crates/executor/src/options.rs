//! How the tasks of a table are treated beside others'.

use chiplet_policy::settings;
use chiplet_table::Class;

use crate::scheduler::Terms;
use crate::sync::atomic::{AtomicU64, Ordering};

settings! {
    /// How a table's tasks are treated beside other tables'
    /// ([`Executor::set_table_options`](crate::Executor::set_table_options)).
    ///
    /// ```
    /// use chiplet_executor::{Class, Executor, TableOptions, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let paid = TableOptions::new().weight(3.0);
    /// let songs = executor.add_closure_table("songs", 1 << 20);
    /// executor.set_table_options(songs, paid)?;
    /// assert_eq!(executor.table_options(songs), Some(paid));
    /// // Its tasks are to give way from now on, and at most 100 of them may wait in a domain.
    /// let backfill = paid.class(Class::Bulk).queue_limit(Some(100));
    /// executor.set_table_options(songs, backfill)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct TableOptions {
        /// The table's part of its domain's time when several tables of its class ask for more than there is, relative
        /// to theirs: of two such tables with weights 1 and 3 the second gets three quarters. Without contention it
        /// changes nothing, and it says nothing of tables of the other class:
        /// [`Builder::bulk_weight`](crate::Builder::bulk_weight) alone decides between the classes.
        ///
        /// Default 1.0. In `0.01..=100.0`, as a `cpu.weight` of 1 to 10,000 to its default of 100 in a Linux cgroup;
        /// other values count as the nearest of these, NaN as the default.
        pub(crate) weight: f32 = 1.0,
        /// Tasks of this table that may wait in a domain, instead of the executor's
        /// [`Builder::table_queue_limit`](crate::Builder::table_queue_limit). The domain's own limit holds besides. 0
        /// refuses every task ([`SubmitError::TableClosed`](crate::SubmitError::TableClosed)). Tasks that were accepted
        /// before stay so.
        ///
        /// Default `None`: the executor's.
        pub(crate) queue_limit: Option<usize> = None,
        /// The class of closures, and of queries that name none ([`Query::class`](chiplet_table::Query::class)).
        pub(crate) class: Class = Class::Interactive,
    }
}

/// A queue limit that stands for none of its own; no queue is that long.
const EXECUTORS: u64 = (1 << 31) - 1;

/// A table's options in one word, read by every submit: the weight, the limit, and whether it is of the first class.
pub(crate) struct KeptOptions(AtomicU64);

impl KeptOptions {
    pub(crate) fn new(options: TableOptions) -> Self {
        let kept = Self(AtomicU64::new(0));
        kept.set(options);
        kept
    }

    pub(crate) fn set(&self, options: TableOptions) {
        let weight = match options.weight.is_nan() {
            true => TableOptions::default().weight,
            false => options.weight.clamp(0.01, 100.0),
        };
        let limit = options
            .queue_limit
            .map_or(EXECUTORS, |limit| (limit as u64).min(EXECUTORS - 1));
        let word = u64::from(weight.to_bits()) << 32 | limit << 1 | options.class as u64;
        self.0.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> TableOptions {
        let word = self.0.load(Ordering::Relaxed);
        let limit = word >> 1 & EXECUTORS;
        TableOptions::new()
            .weight(f32::from_bits((word >> 32) as u32))
            .queue_limit((limit != EXECUTORS).then_some(limit as usize))
            .class(Class::ALL[(word & 1) as usize])
    }

    /// What a queue is told with a task of `class`.
    #[inline]
    pub(crate) fn terms(&self, class: Class) -> Terms {
        let options = self.get();
        Terms {
            class,
            weight: options.weight,
            limit: options.queue_limit,
            ..Terms::default()
        }
    }
}

// Not under a model checker: its atomics belong to a running model.
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_weight_out_of_range_counts_as_the_nearest() {
        for (given, kept) in [
            (f32::NAN, 1.0),
            (-1.0, 0.01),
            (0.0, 0.01),
            (0.5, 0.5),
            (f32::INFINITY, 100.0),
        ] {
            let options = TableOptions::new().weight(given);
            assert_eq!(KeptOptions::new(options).get().weight, kept);
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_given(
            hundredths in 1_u16..=10_000,
            queue_limit in prop::option::of(0_usize..1_000),
            bulk: bool,
        ) {
            let weight = f32::from(hundredths) / 100.0;
            let options = TableOptions::new().weight(weight).queue_limit(queue_limit).class(Class::ALL[usize::from(bulk)]);
            let kept = KeptOptions::new(TableOptions::default());
            kept.set(options);
            prop_assert_eq!(kept.get(), options);
        }
    }
}
