//! Points that are written after an index was built, and too few for a new one at once.

use std::time::Duration;

use crate::common::Running;

const POINTS: u64 = 3_000;
/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(120);

#[test]
fn they_get_an_index_once_nobody_writes() {
    // The first batch calls for an index; what follows is never a MiB, which calls for another.
    let running = Running::with(|settings| settings.index.full_scan_kib = 16);
    running.fill("line", 16, POINTS);
    let indexed = async {
        loop {
            let info = running.client.collection_info("line").await.unwrap();
            let info = info.result.unwrap();
            if info.indexed_vectors_count == Some(POINTS) && info.status == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = running.run(async { tokio::time::timeout(BOUND, indexed).await });
    waited.expect("all points are indexed");
}
