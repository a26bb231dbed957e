"""What an ingress counts, into Ray's export. No tag names a collection: there may be thousands."""

from collections import Counter as Counts

from ray.serve.metrics import Counter, Gauge, Histogram

from .batch import Batcher


class Meters:
    def __init__(self) -> None:
        self.seconds = Histogram(
            "chiplet_search_ms",
            "Milliseconds of a search at the ingress.",
            boundaries=[0.5, 1, 2, 3, 5, 7.5, 10, 15, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000],
        )
        self._searches = Counter("chiplet_searches", "Searches by what became of them.", tag_keys=("outcome",))
        self._retries = Counter("chiplet_shard_retries", "How often shards were asked again.")
        self._open = Gauge("chiplet_open_searches", "Searches that an ingress has open.")
        self._batches = Counter("chiplet_batches", "Batches sent to nodes.")
        self._asks = Counter("chiplet_batched_searches", "Searches of a shard that went with them.")
        self._sent = (0, 0)

    def export(self, counts: Counts[str], open_now: int, batcher: Batcher) -> None:
        if retries := counts.pop("retries", 0):
            self._retries.inc(retries)
        for outcome, count in counts.items():
            self._searches.inc(count, tags={"outcome": outcome})
        self._open.set(open_now)
        batches, asks = batcher.batches - self._sent[0], batcher.asks - self._sent[1]
        self._sent = batcher.batches, batcher.asks
        if batches:
            self._batches.inc(batches)
            self._asks.inc(asks)
