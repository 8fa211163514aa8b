"""The HTTP endpoint as an application of FastAPI: streams, health, metrics and pages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headwaters.http import page, targets
from headwaters.http.keys import Keys
from headwaters.http.limits import Body, Budget, Limits, Refusal, busy, form_of, is_gzip, too_large
from headwaters.http.metrics import Metrics
from headwaters.http.schema import MOST_RECORDS, NotJson, Reading, RequestReader, TooMany
from headwaters.http.targets import RequestWriter, TooLarge, Unwritten
from headwaters.platform.errors import CodedError
from headwaters.platform.names import or_nearest
from headwaters.streams.contract import Contract

_LARGE = 1 << 16  # bytes; a thread reads larger bodies, so that other requests continue
_VALID = 1.0  # seconds; a health check stays valid for that long


@dataclass(frozen=True)
class Endpoint:
    """A stream with the writer of its records, which go to one of its topics, or to its table.

    If `required_key` is set, every message needs a key, and only this field may be the key.
    """

    contract: Contract
    reader: RequestReader
    writer: RequestWriter
    topics: tuple[str, ...] = ()
    required_key: str | None = None

    @property
    def name(self) -> str:
        """Return the stream's name, which is in the endpoint's path."""
        return self.contract.name

    @property
    def target(self) -> str:
        """Return a description of the target."""
        if self.topics:
            return f"topic {', '.join(self.topics)}"
        return f"table {self.contract.stream.path}"


class Application:
    """Endpoints, keys and limits, with the requests in flight."""

    def __init__(self, endpoints: Sequence[Endpoint], keys: Keys, limits: Limits) -> None:
        """Store the endpoints by name, and reset all counters."""
        self.endpoints: Mapping[str, Endpoint] = {one.name: one for one in endpoints}
        self.keys, self.limits = keys, limits
        self.metrics = Metrics()
        self._budget = Budget(limits.bytes)
        self._in_flight = 0
        self._health: tuple[float, dict[str, str]] = (0.0, {})

    def asgi(self) -> ASGIApp:
        """Return the ASGI application for uvicorn.

        FastAPI describes all routes. Records bypass its layers, which cost as much as the work
        itself.
        """
        # show the address of a proxy in front of the endpoint
        others: Any = ProxyHeadersMiddleware(cast(Any, self._described()))
        posts = {f"/streams/{name}": endpoint for name, endpoint in self.endpoints.items()}

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            is_post = scope["type"] == "http" and scope["method"] == "POST"
            if is_post and (endpoint := posts.get(scope["path"])):
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
                partial(self._post_described, endpoint),
                methods=["POST"],
                status_code=201,
                name=endpoint.name,
                summary=f"Records of {endpoint.name}, to {endpoint.target}",
                openapi_extra=page.operation(endpoint.reader, bool(self.keys)),
                responses=page.RESPONSES,
            )
        app.add_api_route(
            "/streams/{name:path}", self._unknown, methods=["POST"], include_in_schema=False
        )
        for path, handler in (
            ("/health", self._healthy),
            ("/metrics", self._measured),
            ("/docs", self._page),
        ):
            app.add_api_route(path, handler, methods=["GET"], include_in_schema=False)
        app.add_exception_handler(HTTPException, self._not_here)
        if self.keys:
            schemes = app.openapi().setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["key"] = {"type": "http", "scheme": "bearer"}
        return app

    @property
    def _writers(self) -> list[RequestWriter]:
        return [*dict.fromkeys(endpoint.writer for endpoint in self.endpoints.values())]

    @asynccontextmanager
    async def _life(self, _: FastAPI) -> AsyncIterator[None]:
        for writer in self._writers:
            writer.start()
        yield
        for writer in self._writers:
            await asyncio.to_thread(writer.close)

    # -- records -----------------------------------------------------------------------------------

    async def _post_described(self, endpoint: Endpoint, request: Request) -> Response:
        return await self._post(endpoint, request.scope, request.receive)

    async def _post(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        begun = time.monotonic()
        self._in_flight += 1
        try:
            answer = await self._take(endpoint, scope, receive)
        except Refusal as refusal:
            answer = refused(refusal)
        finally:
            self._in_flight -= 1
        self.metrics.seconds.labels(endpoint.name).observe(time.monotonic() - begun)
        return self._counted(answer, endpoint.name)

    async def _take(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        # the first of repeated headers counts
        headers = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self._admit(headers.get(b"authorization"))
        form = form_of(headers.get(b"content-type"))
        gzip = is_gzip(headers.get(b"content-encoding"))
        place = _place(endpoint, [value for name, value in query if name == "topic"])
        key = _key(endpoint, dict(query).get("key"))
        declared = headers.get(b"content-length", "0")
        if declared.isdecimal() and int(declared) > self.limits.body:
            raise too_large(self.limits.body)
        if self._in_flight > self.limits.requests:
            raise busy()
        body = Body(self._budget, self.limits.body)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                data = await body.read(_chunks(receive), gzip)
            read = partial(endpoint.reader.read, data, form, key, keep_rows=not endpoint.topics)
            reading = await asyncio.to_thread(read) if len(data) > _LARGE else read()
            del data, read
            return await self._write(endpoint, reading, place, body.size)
        except TimeoutError:
            text = f"the body took longer than {self.limits.body_seconds:g} s"
            raise Refusal(408, "timeout", text) from None
        except TooMany:
            text = f"a request may have {MOST_RECORDS:,} records: send several"
            raise Refusal(413, "too_large", text) from None
        except NotJson as error:
            text = f"{error}: send [...], or a record a line as NDJSON"
            raise Refusal(400, "json", text) from None
        finally:
            body.give_back()

    async def _write(self, endpoint: Endpoint, reading: Reading, place: str, size: int) -> Response:
        if reading.refused:
            first = {problem.index: problem.type for problem in reversed(reading.problems)}
            for type_ in first.values():
                self.metrics.refused.labels(endpoint.name, type_).inc()
            raise Refusal(
                400,
                "records",
                f"{reading.refused:,} records are refused; nothing of the request was accepted",
                refused=reading.refused,
                records=[vars(problem) for problem in reading.problems],
            )
        if not reading.texts:
            return answered(201, {"accepted": 0})
        if endpoint.required_key is not None and None in (keys := reading.keys or []):
            index = keys.index(None)
            text = f"record {index} has no {endpoint.required_key}, which is its key in the topic"
            raise Refusal(400, "key", text, index=index)
        largest = endpoint.writer.largest
        if size > largest:
            for index, record in enumerate(reading.texts):
                if len(record) > largest:
                    text = f"a record may have {largest:,} bytes"
                    raise Refusal(413, "too_large", text, index=index)
        answer = asyncio.get_running_loop().create_future()
        request = targets.Request(place, reading.texts, reading.keys, reading.rows, size, answer)
        try:
            endpoint.writer.send(request)
            written = await answer
        except TooLarge as error:
            text = f"the target does not take a record: {error.reason}"
            raise Refusal(413, "too_large", text) from None
        except Unwritten as error:
            raise _away(error) from None
        except CodedError as error:
            raise _away(Unwritten("none", error.text)) from None
        self.metrics.records.labels(endpoint.name).inc(len(request))
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
        text = f"no stream '{name[:100]}' is served here{known}"
        return self._counted(refused(Refusal(404, "stream", text)))

    async def _not_here(self, request: Request, error: Exception) -> Response:
        """Refuse another path, or another method."""
        assert isinstance(error, HTTPException)
        type_ = "method" if error.status_code == 405 else "path"
        text = f"{request.method} {request.url.path[:100]}: {error.detail}; see /docs"
        refusal = Refusal(error.status_code, type_, text, headers=dict(error.headers or {}))
        return self._counted(refused(refusal))

    def _counted(self, answer: Response, name: str = "") -> Response:
        self.metrics.requests.labels(name, answer.status_code).inc()
        return answer

    # -- pages -------------------------------------------------------------------------------------

    async def _healthy(self, request: Request) -> Response:
        """Report the state of every target, checked at most once a second."""
        checked, states = self._health
        if time.monotonic() - checked > _VALID:
            writers = self._writers
            problems = await asyncio.gather(*(asyncio.to_thread(one.problem) for one in writers))
            state = dict(zip(writers, problems, strict=True))
            states = {one.name: state[one.writer] or "ok" for one in self.endpoints.values()}
            self._health = time.monotonic(), states
        well = all(state == "ok" for state in states.values())
        status = "ok" if well else "unavailable"
        return answered(200 if well else 503, {"status": status, "streams": states})

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
        streams = [(one.reader, one.target) for one in self.endpoints.values()]
        text = page.html(streams, str(request.base_url).rstrip("/"), bool(self.keys))
        return Response(text, media_type="text/html", headers=page.HEADERS)


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body of a request. Raises Refusal (400) if the client is gone."""
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
    """Return a JSON response."""
    # a refused text may contain half of a surrogate pair
    body = _to_json(content).encode("utf-8", "replace")
    return Response(body, code, headers, media_type="application/json")


def refused(refusal: Refusal) -> Response:
    """Return the response for a refusal."""
    more = dict(refusal.more)
    headers = more.pop("headers", {})
    if (after := more.get("retry_after")) is not None:
        headers["Retry-After"] = str(after)
    content = {"type": refusal.type, "message": refusal.message, **more}
    return answered(refusal.code, content, headers)


def _away(error: Unwritten) -> Refusal:
    if error.outcome == "unknown":
        text = f"all records were written, or none: the outcome is unknown ({error.reason})"
    else:
        text = f"nothing was written: {error.reason}"
    return Refusal(503, "unavailable", text, outcome=error.outcome, retry_after=1)


def _place(endpoint: Endpoint, asked: Sequence[str]) -> str:
    """Return the topic of a request. Raises Refusal (400)."""
    if not endpoint.topics:
        if asked:
            raise Refusal(400, "topic", f"{endpoint.name} has no topics: leave out ?topic=")
        return ""
    if len(asked) == 1 and asked[0] in endpoint.topics:
        return asked[0]
    if not asked and len(endpoint.topics) == 1:
        return endpoint.topics[0]
    known = ", ".join(endpoint.topics)
    raise Refusal(400, "topic", f"{endpoint.name} reads {known}: name one of them by ?topic=")


def _key(endpoint: Endpoint, asked: str | None) -> str | None:
    """Return the field whose value is the key of a message. Raises Refusal (400)."""
    if endpoint.required_key not in (None, asked):
        text = f"the topic of {endpoint.name} is compacted: send ?key={endpoint.required_key}"
        raise Refusal(400, "key", text)
    if asked is None:
        return None
    if not endpoint.topics:
        raise Refusal(400, "key", f"{endpoint.name} has no topics: leave out ?key=")
    if asked not in endpoint.reader.names:
        hint = or_nearest(asked, endpoint.reader.names)
        raise Refusal(400, "key", f"?key={asked[:100]} is no field of {endpoint.name}{hint}")
    return asked
