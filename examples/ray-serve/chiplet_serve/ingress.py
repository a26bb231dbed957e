"""The deployment that callers reach: HTTP and gRPC, and a router behind both."""

import asyncio
import logging
import math
import time
from collections import Counter as Counts
from http import HTTPStatus
from typing import Annotated, Any

import grpc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import errors
from .alpha import map_of, sender
from .batch import Batcher, Hops
from .metrics import Meters
from .search import Result, Searcher, SearchSettings
from .shard_map import Catalogue

log = logging.getLogger("ray.serve")

app = FastAPI(title="chiplet on Ray Serve")


class Find(BaseModel):
    """A search."""

    # Strings and booleans are no numbers here.
    model_config = ConfigDict(extra="forbid", strict=True)

    vector: Annotated[list[float], Field(max_length=65_536)]
    k: int = 10
    #: Candidates of a graph search; the table's own unless given.
    ef: int | None = None
    #: From the arrival at the ingress on.
    timeout_ms: float | None = None
    #: An answer may lack shards, which it names.
    allow_partial: bool = False
    #: The answer says where its time went.
    hops: bool = False


#: Seconds that the body of a request may take. A client that never ends one would keep a place of `max_ongoing_requests`.
_BODY_S = 5.0


class _BodyInTime:
    """ASGI: a body that is not there in time cannot be read, which FastAPI answers with 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        end = asyncio.get_running_loop().time() + _BODY_S
        whole = scope["type"] != "http"

        async def in_time() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            async with asyncio.timeout_at(end):
                message = await receive()
            whole = not message.get("more_body", False)
            return message

        await self._app(scope, in_time, send)


app.add_middleware(_BodyInTime)


@app.exception_handler(errors.SearchError)
async def _refused(_: Request, why: errors.SearchError) -> JSONResponse:
    headers = {} if why.retry_after is None else {"Retry-After": str(math.ceil(why.retry_after))}
    return JSONResponse(why.as_json(), why.http, headers)


@app.exception_handler(RequestValidationError)
async def _not_read(_: Request, why: RequestValidationError) -> JSONResponse:
    said = "; ".join(f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}" for each in why.errors()[:3])
    return JSONResponse(errors.BadQuery(said).as_json(), errors.BadQuery.http)


@app.exception_handler(HTTPException)
async def _no_such_path(_: Request, why: HTTPException) -> JSONResponse:
    said = {"code": HTTPStatus(why.status_code).name.lower(), "message": str(why.detail)}
    return JSONResponse({"error": said}, why.status_code, why.headers)


def _described(entry: Any) -> dict[str, Any]:
    return {
        "version": entry.version,
        "dim": entry.dim,
        "metric": entry.metric,
        "rows": entry.rows,
        "shards": len(entry.holders),
    }


def _microseconds(hops: Hops, began: float) -> dict[str, int]:
    seconds = {"ingress": time.perf_counter() - began, **hops._asdict()}
    return {name: round(each * 1e6) for name, each in seconds.items()}


def _set_status(context: Any, why: errors.SearchError) -> None:
    context.set_code(grpc.StatusCode[why.grpc])
    context.set_details(str(why))
    if why.retry_after is not None:
        # gRPC's own retry policies read the first, people's clients the second.
        context.set_trailing_metadata(
            [
                ("grpc-retry-pushback-ms", str(math.ceil(why.retry_after * 1000))),
                ("retry-after", str(math.ceil(why.retry_after))),
            ]
        )


# Serve pickles the class with what this module holds so far: nothing that it uses may stand below.
@serve.ingress(app)
class Ingress:
    async def __init__(self, shards: DeploymentHandle, settings: dict[str, Any]) -> None:  # type: ignore[misc]  # Serve awaits it.
        self._shards = shards
        self._catalogue: Catalogue = {}
        limits = SearchSettings(**settings)
        self._batcher = Batcher(sender(shards), batch=limits.batch, gather_s=limits.gather_s)
        self._searcher = Searcher(self._batcher, lambda: self._catalogue, limits)
        self._outcomes: Counts[str] = Counts()
        self._meters = Meters()
        self._followed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow_map()), loop.create_task(self._export())]
        # A replica that is ready knows what serves.
        await self._followed.wait()

    @app.post("/collections/{collection}/search")
    async def find(self, collection: str, query: Find) -> dict[str, Any]:
        began = time.perf_counter()
        timeout_s = None if query.timeout_ms is None else query.timeout_ms / 1000
        result = await self._find(collection, query.vector, query.k, query.ef, timeout_s, query.allow_partial)
        said: dict[str, Any] = {
            "ids": result.ids.tolist(),
            "distances": result.distances.tolist(),
            "version": result.version,
            "missing_shards": result.missing,
            "retries": result.retries,
        }
        if query.hops and result.hops:
            said["hops_us"] = _microseconds(result.hops, began)
        return said

    @app.get("/collections")
    async def collections(self) -> dict[str, Any]:
        return {name: _described(entry) for name, entry in self._catalogue.items()}

    @app.get("/collections/{collection}")
    async def collection(self, collection: str) -> dict[str, Any]:
        if collection not in self._catalogue:
            raise errors.UnknownCollection(f"there is no collection {collection!r}")
        return _described(self._catalogue[collection])

    async def Find(self, request: Any, grpc_context: Any) -> Any:
        """gRPC's Find."""
        from . import search_pb2

        began = time.perf_counter()
        try:
            result = await self._find(
                request.collection,
                request.vector,
                request.k or 10,
                request.ef or None,
                request.timeout_ms / 1000 if request.timeout_ms else None,
                request.allow_partial,
            )
        except errors.SearchError as why:
            _set_status(grpc_context, why)
            return search_pb2.FindResponse()
        return search_pb2.FindResponse(
            ids=result.ids,
            distances=result.distances,
            version=result.version,
            missing_shards=result.missing,
            retries=result.retries,
            hops=search_pb2.Hops(**_microseconds(result.hops, began)) if request.hops and result.hops else None,
        )

    async def List(self, request: Any, grpc_context: Any) -> Any:
        """gRPC's List."""
        from . import search_pb2

        return search_pb2.ListResponse(
            collections=[
                search_pb2.ListResponse.Collection(name=name, **_described(entry))
                for name, entry in self._catalogue.items()
            ]
        )

    async def _find(
        self, collection: str, vector: Any, k: int, ef: int | None, timeout_s: float | None, allow_partial: bool
    ) -> Result:
        began = time.perf_counter()
        outcome = "failed"
        try:
            result = await self._searcher.search(
                collection, vector, k=k, ef=ef, timeout_s=timeout_s, allow_partial=allow_partial
            )
            outcome = "partial" if result.missing else "answered"
            return result
        except errors.SearchError as why:
            outcome = why.code
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as why:
            log.exception("a search of %s failed", collection)
            raise errors.Failed(f"{type(why).__name__}: {why}") from why
        finally:
            self._outcomes[outcome] += 1
            self._meters.milliseconds.observe((time.perf_counter() - began) * 1e3)

    async def _follow_map(self) -> None:
        """Keeps the catalogue. Without the map searches go on with the last one."""
        handle, epoch = None, -1
        while True:
            try:
                handle = handle or await map_of(self._shards)
                change = await handle.catalogue.remote(epoch)
                epoch, self._catalogue = change.epoch, change.applied(self._catalogue)
                self._followed.set()
            except Exception as why:
                log.warning("the map of shards does not answer: %s", why)
                handle = None
                await asyncio.sleep(0.5)

    async def _export(self) -> None:
        while True:
            await asyncio.sleep(1)
            outcomes, self._outcomes = self._outcomes, Counts()
            try:
                self._meters.export(outcomes, self._searcher, self._batcher)
            except Exception:
                # Without this, one second that cannot be exported would be the last that is.
                log.exception("counters could not be exported")
