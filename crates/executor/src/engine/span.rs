//! A task's span, with the feature `tracing`: its parent is the span that was current at the submit, and it is current
//! wherever the task's code runs. Without the feature it is nothing.

#[cfg(feature = "tracing")]
use chiplet_table::host::contain;

/// A span from a task's submit until the task is gone.
pub(crate) struct TaskSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl TaskSpan {
    /// Of a task of `table` that the calling thread submits.
    #[cfg_attr(
        not(feature = "tracing"),
        expect(unused_variables, reason = "there is no span")
    )]
    pub(crate) fn of(table: &str) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(target: "chiplet", "task", table),
        }
    }

    /// Runs the task's code within it. A subscriber is the caller's code, whose panic must not end the worker.
    pub(crate) fn within<R>(&self, code: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let mut entered = None;
        #[cfg(feature = "tracing")]
        contain(|| entered = Some(self.span.enter()));
        let result = code();
        #[cfg(feature = "tracing")]
        contain(|| drop(entered));
        result
    }
}
