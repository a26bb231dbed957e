"""Clients that write until their server is killed, and what must be there afterwards.

Every point is derived from its id and a generation: written once it has generation 0, overwritten it has the next. So a
point that is read back says by itself whether it is whole."""

import random
import threading

import grpc
from qdrant_client import models

ABSENT = None
DIM = 8


def content(id, generation):
    """Vector and payload. All components are small whole numbers, which 32-bit floats hold exactly."""
    draw = random.Random(f"{id} {generation}")
    vector = [float(draw.randrange(-1000, 1000)) for _ in range(DIM)]
    payload = {"id": id, "generation": generation, "filler": chr(97 + draw.randrange(26)) * draw.randrange(300)}
    return vector, payload


def point(id, generation):
    vector, payload = content(id, generation)
    return models.PointStruct(id=id, vector=vector, payload=payload)


class Ledger:
    """What is known of one writer's points: acknowledged states, and calls that were never answered."""

    def __init__(self, first_id, step):
        self._first, self._step = first_id, step
        self._drawn = 0
        # {id: generation, or ABSENT once it was deleted}, as acknowledged.
        self.known = {}
        # Of the call that was under way: {id: generation or ABSENT that it would have given}.
        self.open = {}

    def draw(self, count):
        """Ids that were never used."""
        drawn = [self._first + self._step * (self._drawn + i) for i in range(count)]
        self._drawn += count
        return drawn

    def live(self):
        return [id for id, generation in self.known.items() if generation is not ABSENT]

    def acknowledge(self):
        self.known.update(self.open)
        self.open = {}

    def settle(self, found):
        """Decides what became of the open call from `found`, {id: generation} of what is there. All of it happened, or
        nothing did."""
        after = {id: found.get(id, ABSENT) for id in self.open}
        before = {id: self.known.get(id, ABSENT) for id in self.open}
        assert after in (self.open, before), f"a call happened by half: {before} -> {self.open}, found {after}"
        self.known.update({id: generation for id, generation in after.items() if id in self.known or generation is not ABSENT})
        happened = after == self.open
        self.open = {}
        return happened


class Acknowledgements:
    """Counts them, for whoever waits for a number of them."""

    def __init__(self):
        self._count = 0
        self._more = threading.Condition()

    def add(self):
        with self._more:
            self._count += 1
            self._more.notify_all()

    def wait_for(self, count, within):
        with self._more:
            assert self._more.wait_for(lambda: self._count >= count, timeout=within), \
                f"{self._count} of {count} acknowledgements within {within} s"


def gone(error):
    """Whether a call failed because the server was killed."""
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class Writer(threading.Thread):
    """Upserts, overwrites and deletes, each waited for, until the server is gone."""

    def __init__(self, client, collection, ledger, acknowledgements, seed):
        super().__init__(daemon=True)
        self._client, self._collection, self._ledger = client, collection, ledger
        self._acknowledgements = acknowledgements
        self._random = random.Random(seed)
        # What ended it, if that was not the server's end.
        self.problem = None

    def run(self):
        try:
            while self._write():
                self._ledger.acknowledge()
                self._acknowledgements.add()
        except Exception as problem:  # The test that joins this thread reports it.
            self.problem = problem

    def _write(self):
        """One call; false if the server went away during it."""
        ledger, draw = self._ledger, self._random
        live = ledger.live()
        kind = draw.choices(["new", "overwrite", "delete"], [5, 2, 3] if len(live) > 40 else [6, 2, 1])[0]
        if kind == "new" or len(live) < 3:
            ledger.open = dict.fromkeys(ledger.draw(draw.randint(1, 6)), 0)
        elif kind == "overwrite":
            ledger.open = {id: ledger.known[id] + 1 for id in draw.sample(live, draw.randint(1, 3))}
        else:
            ledger.open = dict.fromkeys(draw.sample(live, draw.randint(1, 3)), ABSENT)
        try:
            if kind == "delete" and ABSENT in ledger.open.values():
                result = self._client.delete(self._collection, list(ledger.open), wait=True)
            else:
                batch = [point(id, generation) for id, generation in ledger.open.items()]
                result = self._client.upsert(self._collection, batch, wait=True)
        except grpc.RpcError as error:
            if gone(error):
                return False
            raise
        assert result.status == models.UpdateStatus.COMPLETED, result
        return True


class Churn(threading.Thread):
    """Creates and deletes collections, until the server is gone. `exist` is kept true by what is acknowledged."""

    def __init__(self, client, exist, acknowledgements, seed):
        super().__init__(daemon=True)
        self._client, self._exist, self._acknowledgements = client, exist, acknowledgements
        self._random = random.Random(seed)
        self.under_way = None
        self.problem = None

    def run(self):
        try:
            while True:
                self.under_way = name = f"collection {self._random.randrange(6)}"
                if name in self._exist:
                    assert self._client.delete_collection(name)
                else:
                    vectors = models.VectorParams(size=DIM, distance=models.Distance.EUCLID)
                    assert self._client.create_collection(name, vectors)
                self._exist ^= {name}
                self._acknowledgements.add()
        except grpc.RpcError as error:
            self.problem = None if gone(error) else error
        except Exception as problem:
            self.problem = problem
