"""What an ingress counts, into Ray's export. No tag names a collection: there may be thousands."""

from collections import Counter as Counts

from ray.serve.metrics import Counter, Gauge, Histogram

from .batch import Batcher
from .search import Searcher


class Meters:
    def __init__(self) -> None:
        self.milliseconds = Histogram(
            "chiplet_search_ms",
            "Milliseconds of a search at the ingress, answered or not.",
            boundaries=[0.5, 1, 2, 3, 5, 7.5, 10, 15, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000],
        )
        self._searches = Counter("chiplet_searches", "Searches by what became of them.", tag_keys=("outcome",))
        self._retries = Counter("chiplet_shard_retries", "How often shards were asked again.")
        self._open = Gauge("chiplet_open_searches", "Searches that an ingress has open.")
        self._batches = Counter("chiplet_batches", "Batches sent to nodes.")
        self._asks = Counter("chiplet_batched_searches", "Searches of a shard that went with them.")
        #: How far retries, batches and their searches are exported.
        self._exported = (0, 0, 0)

    def export(self, outcomes: Counts[str], searcher: Searcher, batcher: Batcher) -> None:
        """`outcomes` are those since the last call."""
        for outcome, count in outcomes.items():
            self._searches.inc(count, tags={"outcome": outcome})
        self._open.set(searcher.open)
        before, self._exported = self._exported, (searcher.retries, batcher.batches, batcher.asks)
        for counter, was, now in zip((self._retries, self._batches, self._asks), before, self._exported, strict=True):
            # Ray refuses to count nothing.
            if now > was:
                counter.inc(now - was)
