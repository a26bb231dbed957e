//! Calls that block on the disk, a few at a time: collections that are made and deleted, payload indexes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::Status;

use super::refusal;

/// More of them only wait for the same disk, and there are threads left for the writes.
const AT_ONCE: usize = 16;

/// When a refused call is to come back: about as long as some of the others take.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Calls that may wait for a place; further ones are refused.
const WAITING: usize = 256;

/// Places for what blocks. One is free again when its code has ended, so calls that are given up meanwhile leave no
/// more code behind than there are places.
pub(crate) struct Blocking {
    places: Arc<Semaphore>,
    /// For those that wait, and those that have a place.
    queue: Semaphore,
}

impl Default for Blocking {
    fn default() -> Self {
        Self::new(AT_ONCE)
    }
}

impl Blocking {
    fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            queue: Semaphore::new(places + WAITING),
        }
    }

    /// Runs what blocks on a thread that may, as soon as there is a place.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let _queued = self.queue.try_acquire().map_err(|_| {
            refusal::overloaded(
                "too many collections or payload indexes are being made or deleted".into(),
                RETRY_AFTER,
            )
        })?;
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| refusal::shutting_down())?;
        let run = move || {
            let _place = place;
            code()
        };
        tokio::task::spawn_blocking(run)
            .await
            .map_err(|_| Status::internal("the operation panicked; the server's log says where"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn calls_that_are_given_up_leave_no_more_code_behind_than_there_are_places() {
        let blocking = Blocking::new(2);
        let begun = Arc::new(AtomicUsize::new(0));
        let (end, until_end) = mpsc::channel::<()>();
        let until_end = Arc::new(parking_lot::Mutex::new(until_end));
        for _ in 0..20 {
            let (begun, until_end) = (Arc::clone(&begun), Arc::clone(&until_end));
            let call = blocking.run(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                // An error means that the test is over.
                let _ = until_end.lock().recv();
            });
            // Polled once, then given up.
            tokio::select! {
                biased;
                _ = call => panic!("it waits for the test"),
                () = std::future::ready(()) => {}
            }
        }
        drop(end);
        // All places at once: whatever has got one has ended.
        let all = blocking.places.acquire_many(2).await.unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        drop(all);
        assert_eq!(blocking.run(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn more_than_may_wait_are_refused() {
        let blocking = Blocking::new(1);
        let (end, until_end) = mpsc::channel::<()>();
        let until_end = Arc::new(parking_lot::Mutex::new(until_end));
        let mut calls: Vec<_> = (0..WAITING + 1)
            .map(|_| {
                let until_end = Arc::clone(&until_end);
                Box::pin(blocking.run(move || {
                    // An error means that the test is over.
                    let _ = until_end.lock().recv();
                }))
            })
            .collect();
        for call in &mut calls {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(call.as_mut().poll(context).is_pending())
            });
            assert!(polled.await);
        }
        let refused = blocking.run(|| 7).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        drop((end, calls));
        assert_eq!(blocking.run(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_frees_its_place() {
        let blocking = Blocking::new(1);
        let panicked = blocking.run(|| panic!("as it should")).await;
        assert_eq!(panicked.unwrap_err().code(), tonic::Code::Internal);
        assert_eq!(blocking.run(|| 7).await.unwrap(), 7);
    }
}
