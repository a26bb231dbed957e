//! A task's span: below the one that was current at the submit, and current wherever the task's code runs.

use std::sync::mpsc::channel;

use chiplet_executor::{Executor, TableId, Topology};
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use tracing::{Id, Span, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

/// The name of the span that is current here, and of those above it.
fn current() -> Vec<(&'static str, Id)> {
    let Some(id) = Span::current().id() else {
        return Vec::new();
    };
    tracing::dispatcher::get_default(|subscriber| {
        let registry: &Registry = subscriber.downcast_ref().unwrap();
        let span = registry.span(&id).unwrap();
        let scope = span.scope().map(|span| (span.name(), span.id()));
        scope.collect()
    })
}

/// Tells as an id how many spans are current while it is searched.
struct Depth;

impl Table for Depth {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        8
    }

    fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let (id, distance) = (current().len() as u64, 0.0);
        Ok(vec![Neighbor { id, distance }])
    }
}

/// Runs `code` in `table` and returns what spans it saw.
fn seen_in(executor: &Executor, table: TableId) -> Vec<(&'static str, Id)> {
    executor.spawn(table, current).wait().unwrap()
}

// One test: the subscriber is the process's.
#[test]
fn a_tasks_code_runs_below_the_span_that_was_current_at_its_submit() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    let machine = Topology::uniform(1, 2, 32 << 20);
    let executor = Executor::builder().topology(machine).build().unwrap();
    let table = executor.add_table("t", Depth);
    let names = |spans: &[(&'static str, Id)]| spans.iter().map(|span| span.0).collect::<Vec<_>>();

    assert_eq!(
        names(&seen_in(&executor, table)),
        ["task"],
        "without a parent"
    );
    for _ in 0..20 {
        let request = info_span!("request");
        let (closure, query, batch, parts) = request.in_scope(|| {
            let batch = vec![Query::new([0.5]), Query::new([0.5])];
            let parts = |context: &mut Context| context.par_map(4, |_, _| current());
            (
                executor.spawn(table, current),
                executor.search(table, Query::new([0.5])),
                executor.search_batch(table, batch),
                executor.submit_fn(table, None, parts).unwrap(),
            )
        });
        let closure = closure.wait().unwrap();
        assert_eq!(names(&closure), ["task", "request"]);
        assert_eq!(Some(&closure[1].1), request.id().as_ref());
        assert_eq!(query.wait().unwrap()[0].id, 2);
        for answer in batch.wait().unwrap() {
            assert_eq!(answer.unwrap()[0].id, 2);
        }
        // Also on the workers that help.
        for part in parts.wait().unwrap() {
            assert_eq!(names(&part), ["task", "request"]);
        }
    }
    // It is left when the code ends, also by a panic.
    let panics = info_span!("panics").in_scope(|| executor.spawn(table, || panic!("as it should")));
    assert!(panics.wait().is_err());
    assert_eq!(names(&seen_in(&executor, table)), ["task"]);
    let (done, dones) = channel();
    executor
        .spawn(table, move || done.send(()).unwrap())
        .detach();
    dones.recv().unwrap();
    assert_eq!(names(&current()), [""; 0], "the caller's thread is in none");
}
