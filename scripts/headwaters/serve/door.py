"""The front door as an application of FastAPI: an endpoint for each stream, health, metrics, pages.

It decides what is answered. Where records go is the writers' affair, what a record is the readers'.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headwaters.contract import Contract
from headwaters.declared.names import or_nearest
from headwaters.errors import CodedError
from headwaters.serve import page, targets
from headwaters.serve.bodies import Body, Budget, Refusal, busy, form_of, packed, too_large
from headwaters.serve.keys import Keys
from headwaters.serve.records import MOST_RECORDS, Reader, Reading, TooMany
from headwaters.serve.targets import TooLarge, Unwritten, Writer

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LARGE = 1 << 16  # bytes of a body that is read in a thread, so that others are answered meanwhile
_VALID = 1.0  # seconds for which an answer about health is valid


@dataclass(frozen=True)
class Endpoint:
    """One stream: what it takes, and where that goes: to one of its topics, or to its table."""

    contract: Contract
    reader: Reader
    writer: Writer
    topics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The stream's name, which is in the endpoint's path."""
        return self.contract.name

    @property
    def target(self) -> str:
        """Where its records go, in words."""
        if self.topics:
            return f"topic {', '.join(self.topics)}"
        return f"table {self.contract.stream.path}"


@dataclass(frozen=True)
class Limits:
    """What a request, and all requests in flight together, may have."""

    body: int = 8 << 20
    requests: int = 512
    bytes: int = 64 << 20
    body_seconds: float = 60.0


@dataclass
class Metrics:
    """What Prometheus is told."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        """Register all of them."""
        self.requests = Counter(
            "headwaters_http_requests",
            "Requests answered, by stream and code.",
            ["stream", "code"],
            registry=self.registry,
        )
        self.records = Counter(
            "headwaters_http_records",
            "Records accepted.",
            ["stream"],
            registry=self.registry,
        )
        self.refused = Counter(
            "headwaters_http_records_refused",
            "Records refused, by the first reason of each.",
            ["stream", "type"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "headwaters_http_request_seconds",
            "Time from the headers of a request to its answer.",
            ["stream"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "headwaters_http_requests_in_flight", "Requests in flight.", registry=self.registry
        )
        self.bytes = Gauge(
            "headwaters_http_bytes_in_flight", "Bytes of their bodies.", registry=self.registry
        )


class FrontDoor:
    """Endpoints, keys and limits, with what is in flight."""

    def __init__(self, endpoints: Sequence[Endpoint], keys: Keys, limits: Limits) -> None:
        """A door in front of these endpoints."""
        self.endpoints: Mapping[str, Endpoint] = {one.name: one for one in endpoints}
        self.keys, self.limits = keys, limits
        self.metrics = Metrics()
        # by name and code; to look a label up costs more than to count
        self._answers: dict[tuple[str, int], Counter] = {}
        self._seconds = {name: self.metrics.seconds.labels(name) for name in self.endpoints}
        self._records = {name: self.metrics.records.labels(name) for name in self.endpoints}
        self._budget = Budget(limits.bytes)
        self._in_flight = 0
        self._health: tuple[float, dict[str, str]] = (0.0, {})

    def application(self) -> ASGIApp:
        """What uvicorn serves.

        FastAPI describes all of it. Records do not go through its layers, which cost as much as the
        work itself.
        """
        # behind a proxy, pages have its address
        others: Any = ProxyHeadersMiddleware(cast(Any, self._described()))
        posts = {f"/streams/{name}": endpoint for name, endpoint in self.endpoints.items()}

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            known = scope["type"] == "http" and scope["method"] == "POST"
            if known and (endpoint := posts.get(scope["path"])):
                answer = await self._post(endpoint, scope, receive)
                await answer(scope, receive, send)
            else:
                await others(scope, receive, send)

        return application

    def _described(self) -> FastAPI:
        app = FastAPI(
            title="headwaters",
            description="Streams of a lakehouse: each takes records by POST.",
            docs_url=None,
            redoc_url=None,
            lifespan=self._life,
        )
        for endpoint in self.endpoints.values():
            app.add_api_route(
                f"/streams/{endpoint.name}",
                self._post_to(endpoint),
                methods=["POST"],
                status_code=201,
                name=endpoint.name,
                summary=f"Records of {endpoint.name}, to {endpoint.target}",
                openapi_extra=page.operation(endpoint.contract, bool(self.keys)),
                responses=page.RESPONSES,
            )
        app.add_api_route(
            "/streams/{name:path}", self._unknown, methods=["POST"], include_in_schema=False
        )
        pages: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/health": self._healthy,
            "/metrics": self._measured,
            "/docs": self._page,
        }
        for path, handler in pages.items():
            app.add_api_route(path, handler, methods=["GET"], include_in_schema=False)
        app.add_exception_handler(HTTPException, self._not_here)
        if self.keys:
            schemes = app.openapi().setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["key"] = {"type": "http", "scheme": "bearer"}
        return app

    @asynccontextmanager
    async def _life(self, _: FastAPI) -> AsyncIterator[None]:
        writers = {id(one.writer): one.writer for one in self.endpoints.values()}.values()
        for writer in writers:
            writer.start()
        yield
        for writer in writers:
            await asyncio.to_thread(writer.close)

    # -- records -----------------------------------------------------------------------------------

    def _post_to(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def post(request: Request) -> Response:
            return await self._post(endpoint, request.scope, request.receive)

        return post

    async def _post(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        begun = time.monotonic()
        self._in_flight += 1
        try:
            answer = await self._taken(endpoint, scope, receive)
        except Refusal as refusal:
            answer = refused(refusal)
        finally:
            self._in_flight -= 1
        self._seconds[endpoint.name].observe(time.monotonic() - begun)
        return self._counted(answer, endpoint.name)

    async def _taken(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        # of a header that is sent twice, the first one
        headers = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
        query = scope["query_string"].decode("latin-1")
        asked = parse_qsl(query, keep_blank_values=True) if query else []
        self._admit(headers.get(b"authorization"))
        form = form_of(headers.get(b"content-type"))
        gzip = packed(headers.get(b"content-encoding"))
        place = _place(endpoint, [value for name, value in asked if name == "topic"])
        key = _key(endpoint, dict(asked).get("key"))
        declared = headers.get(b"content-length", "0")
        if declared.isdecimal() and int(declared) > self.limits.body:
            raise too_large(self.limits.body)
        if self._in_flight > self.limits.requests:
            raise busy()
        body = Body(self._budget, self.limits.body)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                data = await body.read(_chunks(receive), gzip)
            read = partial(endpoint.reader.read, data, form, key, keep_values=not endpoint.topics)
            reading = await asyncio.to_thread(read) if len(data) > _LARGE else read()
            del data, read
            return await self._written(endpoint, reading, place, body.size)
        except TimeoutError:
            raise Refusal(
                408, "timeout", f"the body took longer than {self.limits.body_seconds:g} s"
            ) from None
        except TooMany:
            raise Refusal(
                413, "too_large", f"a request may have {MOST_RECORDS:,} records: send several"
            ) from None
        finally:
            body.give_back()

    async def _written(
        self, endpoint: Endpoint, reading: Reading, place: str, size: int
    ) -> Response:
        rows = [] if reading.refused else _rows(endpoint, reading)
        if reading.refused:
            for problem in reading.problems:
                self.metrics.refused.labels(endpoint.name, problem.type).inc()
            return answered(
                400,
                {
                    "type": "records",
                    "message": f"{reading.refused:,} records are refused; nothing of the request "
                    "was accepted",
                    "refused": reading.refused,
                    "records": [vars(problem) for problem in reading.problems],
                },
            )
        if not reading.texts:
            return answered(201, {"accepted": 0})
        largest = endpoint.writer.largest
        if size > largest:
            for index, record in enumerate(reading.texts):
                if len(record) > largest:
                    text = f"a record may have {largest:,} bytes"
                    raise Refusal(413, "too_large", text, index=index)
        answer = asyncio.get_running_loop().create_future()
        request = targets.Request(place, reading.texts, reading.keys, rows, size, answer)
        try:
            endpoint.writer.send(request)
            written = await answer
        except TooLarge as error:
            raise Refusal(
                413, "too_large", f"the target does not take a record: {error.reason}"
            ) from None
        except Unwritten as error:
            raise _away(error) from None
        except CodedError as error:
            raise _away(Unwritten("none", error.text)) from None
        self._records[endpoint.name].inc(len(request))
        return answered(201, {"accepted": len(request), **written})

    def _admit(self, authorization: str | None) -> None:
        if not self.keys.admit(authorization):
            raise Refusal(
                401,
                "key",
                "no key, or a wrong one: send the header Authorization: Bearer <key>",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _unknown(self, request: Request) -> Response:
        try:
            self._admit(request.headers.get("authorization"))
        except Refusal as refusal:
            return self._counted(refused(refusal))
        name = str(request.path_params["name"])
        known = or_nearest(name, self.endpoints)
        return self._counted(
            refused(Refusal(404, "stream", f"no stream '{name[:100]}' is served here{known}"))
        )

    async def _not_here(self, request: Request, error: Exception) -> Response:
        """Another path, or another method."""
        assert isinstance(error, HTTPException)
        type_ = "method" if error.status_code == 405 else "path"
        text = f"{request.method} {request.url.path[:100]}: {error.detail}; see /docs"
        refusal = Refusal(error.status_code, type_, text, headers=dict(error.headers or {}))
        return self._counted(refused(refusal))

    def _counted(self, answer: Response, name: str = "") -> Response:
        by = name, answer.status_code
        if (counter := self._answers.get(by)) is None:
            counter = self._answers[by] = self.metrics.requests.labels(*by)
        counter.inc()
        return answer

    # -- pages -------------------------------------------------------------------------------------

    async def _healthy(self, request: Request) -> Response:
        """Whether every target answers; asked at most once a second."""
        checked, found = self._health
        if time.monotonic() - checked > _VALID:
            writers = {id(one.writer): one.writer for one in self.endpoints.values()}
            problems = dict(
                zip(
                    writers,
                    await asyncio.gather(
                        *(asyncio.to_thread(one.problem) for one in writers.values())
                    ),
                    strict=True,
                )
            )
            found = {one.name: problems[id(one.writer)] or "ok" for one in self.endpoints.values()}
            self._health = time.monotonic(), found
        well = all(one == "ok" for one in found.values())
        status = "ok" if well else "unavailable"
        return answered(200 if well else 503, {"status": status, "streams": found})

    async def _measured(self, request: Request) -> Response:
        try:
            self._admit(request.headers.get("authorization"))
        except Refusal as refusal:
            return refused(refusal)
        self.metrics.in_flight.set(self._in_flight)
        self.metrics.bytes.set(self._budget.taken)
        text = generate_latest(self.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _page(self, request: Request) -> Response:
        text = page.html(
            [(one.contract, one.target, one.reader.unchecked) for one in self.endpoints.values()],
            str(request.base_url).rstrip("/"),
            bool(self.keys),
        )
        return Response(text, media_type="text/html", headers=page.HEADERS)


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request, as it comes. Raises Refusal (400) where the client is gone."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "disconnected", "the client ended before its request")
        if chunk := message.get("body", b""):
            yield chunk
        more = message.get("more_body", False)


_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def answered(code: int, content: Mapping[str, Any], headers: Any = None) -> Response:
    """An answer of JSON."""
    # a refused text may have half of a surrogate pair
    body = _to_json(content).encode("utf-8", "replace")
    return Response(body, code, headers, media_type="application/json")


def refused(refusal: Refusal) -> Response:
    """The answer that a refusal is."""
    more = dict(refusal.more)
    headers = dict(more.pop("headers", {}))  # type: ignore[call-overload]  # of `_admit` and others
    if (after := more.get("retry_after")) is not None:
        headers["Retry-After"] = str(after)
    return answered(
        refusal.code, {"type": refusal.type, "message": refusal.message, **more}, headers
    )


def _away(error: Unwritten) -> Refusal:
    if error.outcome == "unknown":
        text = (
            f"nobody knows yet whether the records were written ({error.reason}): all of them "
            "were, or none"
        )
    else:
        text = f"nothing was written: {error.reason}"
    return Refusal(503, "unavailable", text, outcome=error.outcome, retry_after=1)


def _place(endpoint: Endpoint, asked: Sequence[str]) -> str:
    """The topic of a request, of those that its stream reads."""
    if not endpoint.topics:
        if asked:
            raise Refusal(400, "topic", f"{endpoint.name} has no topics: leave out ?topic=")
        return ""
    if len(asked) == 1 and asked[0] in endpoint.topics:
        return asked[0]
    if not asked and len(endpoint.topics) == 1:
        return endpoint.topics[0]
    known = ", ".join(endpoint.topics)
    raise Refusal(400, "topic", f"{endpoint.name} reads {known}: say which one by ?topic=")


def _key(endpoint: Endpoint, asked: str | None) -> str | None:
    """The field whose value is the key of a message."""
    if asked is None:
        return None
    names = [column.name for column in endpoint.reader.columns]
    if not endpoint.topics:
        raise Refusal(400, "key", f"{endpoint.name} has no topics: leave out ?key=")
    if asked not in names:
        hint = or_nearest(asked, names)
        raise Refusal(400, "key", f"?key={asked[:100]} is no field of {endpoint.name}{hint}")
    return asked


def _rows(endpoint: Endpoint, reading: Reading) -> list[dict[str, Any]]:
    """The rows of a table; where only Spark can have a value, `reading` then says so."""
    rows: list[dict[str, Any]] = []
    if not endpoint.topics:
        for index, value in enumerate(reading.values):
            try:
                rows.append(endpoint.reader.typed(value))
            except ValueError as error:
                reading.refuse(page.no_row(index, error))
    return rows
