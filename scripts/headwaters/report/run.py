"""`headwaters report`: the page as a file, or served on loopback with metrics and events."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headwaters.platform import atomic_write
from headwaters.platform import lake as lakes
from headwaters.platform.errors import CodedError, UserError
from headwaters.platform.project import Project
from headwaters.platform.servers import LOOPBACK, check_port
from headwaters.report import page
from headwaters.report.attention import attention
from headwaters.report.declared import declared
from headwaters.report.facts import Lake
from headwaters.report.gather import Gatherer
from headwaters.report.metrics import exposition
from headwaters.streams.ingestion.stopping import Stopping

EVERY = 10.0  # seconds between two reads of the lake
Say = Callable[[str], None]


def report(project: Project, out: Path, say: Say) -> None:
    """Write the page of the lake. Raises UserError if it cannot be written."""
    lake = Gatherer(project, declared(project)).lake()
    os.umask(lakes.umask())  # like the lake: for its owner alone
    if out.is_dir():
        raise UserError("HW_FILE", f"{out} is a folder: name a file with --out")
    atomic_write.write(out, page.render(lake))
    for line in lines(lake):
        say(line)
    say(f"written to {out}")


def lines(lake: Lake) -> list[str]:
    """Return the findings that need attention and the problems of reading."""
    return [*(one.text for one in attention(lake)), *lake.problems] or ["nothing needs attention"]


class Site:
    """The served content: the lake as last read, and its page."""

    def __init__(self, lake: Lake) -> None:
        """Start with a lake."""
        state = _state_of(lake)
        self._shown = lake, state, page.render(lake, state)

    def show(self, lake: Lake) -> None:
        """Replace the served lake. Concurrent requests get the whole previous page."""
        state = _state_of(lake)
        _, before, html = self._shown
        self._shown = lake, state, html if state == before else page.render(lake, state)

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Return the media type and body of a path, or None if the path does not exist."""
        lake, state, html = self._shown
        if path == "/":
            return "text/html; charset=utf-8", html.encode(errors="replace")
        if path == "/state":
            return "text/plain; charset=utf-8", state.encode()
        if path == "/metrics":
            return "text/plain; version=0.0.4; charset=utf-8", exposition(lambda: lake)
        return None


def _state_of(lake: Lake) -> str:
    """Return a digest that changes with the page; ages change by the minute."""
    facts = repr(replace(lake, at=lake.at.replace(second=0, microsecond=0)))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


@contextmanager
def serving(site: Site, port: int) -> Iterator[int]:
    """Serve a site on a port of 127.0.0.1 inside the context, and yield the port (0 = any).

    Raises UserError if the port is taken.
    """
    check_port(port, "--port")
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(site))
    except OSError:
        raise UserError("HW_PORT", f"port {port} is taken: choose another --port") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "headwaters"
        sys_version = ""

        def do_GET(self) -> None:
            # a page of another site must not read the lake through a name that resolves to this
            # machine
            host = (self.headers.get("Host") or "").rpartition(":")[0].strip("[]")
            if host not in LOOPBACK:
                self.send_error(HTTPStatus.FORBIDDEN, "this is served to this machine alone")
                return
            if (found := site.answer(self.path.partition("?")[0])) is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            kind, body = found
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log no requests."""

    return Handler


def serve(project: Project, port: int, say: Say, every: float = EVERY) -> None:
    """Serve page and metrics, and send events, until SIGTERM or Ctrl-C.

    Reads the project's declarations once, and the lake every so many seconds.
    """
    gatherer = Gatherer(project, declared(project))
    lake = gatherer.lake()
    send = _events(say)
    site = Site(lake)
    with Stopping() as stopping, serving(site, port) as taken:
        stopping.take_signals()
        for line in lines(lake):
            say(line)
        say(f"serving at http://127.0.0.1:{taken} (metrics: /metrics)")
        send(lake)
        while not stopping.wait(every):
            lake = _again(gatherer, lake)
            site.show(lake)
            send(lake)


def _again(gatherer: Gatherer, before: Lake) -> Lake:
    """Read the lake again. If that fails, return the previous one with the reason."""
    try:
        return gatherer.lake()
    except CodedError as error:
        return replace(before, problems=(str(error),))


def _events(say: Say) -> Callable[[Lake], None]:
    """Return a function that sends a lake's events, if OpenLineage is installed and configured."""
    try:
        from headwaters.report.events import Sender
    except ModuleNotFoundError:
        if any(name.startswith("OPENLINEAGE_") for name in os.environ):
            raise
        return lambda lake: None
    sender = Sender()
    if not sender.is_configured:
        return lambda lake: None
    told: list[str] = []

    def send(lake: Lake) -> None:
        try:
            if count := sender.send(lake):
                say(f"OpenLineage: {count} events sent")
            told.clear()
        except CodedError as error:
            if str(error) not in told:
                told.append(str(error))
                say(str(error))

    return send
