"""A real S3 gateway for tests, and a proxy in front of it that misbehaves.

The gateway is Versity S3 Gateway, which `go install` builds once into the cache of downloads. Its
buckets are folders, so tests read the stored files from the disk.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from headwaters.devkit.objects import BUCKET, REGION, command, program
from headwaters.platform.errors import UserError
from headwaters.platform.servers import listens

ACCESS, SECRET = "tester", "not-a-secret"


def gateway_program() -> Path:
    """Return the gateway's program, built if needed. Skip the test without Go."""
    try:
        return program(print)
    except UserError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Gateway:
    """A running gateway: its address, and the folder with a folder for each bucket."""

    port: int
    folder: Path

    @property
    def bucket(self) -> Path:
        """Return the folder of the bucket."""
        return self.folder / BUCKET

    def settings(self, port: int | None = None, secret: str = SECRET) -> dict[str, str]:
        """Return Hadoop's settings for this gateway, or for a proxy at another port."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{port or self.port}",
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": ACCESS,
            "fs.s3a.secret.key": secret,
            "fs.s3a.retry.interval": "20ms",
            "fs.s3a.retry.limit": "2",
        }

    def variables(self) -> dict[str, str]:
        """Return the environment of a process that uses this gateway."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextlib.contextmanager
def running_gateway(folder: Path) -> Iterator[Gateway]:
    """Start a gateway with one bucket in a folder, and end it."""
    (folder / BUCKET).mkdir(parents=True)
    gateway = Gateway(free_port(), folder)
    variables = {
        **os.environ,
        "ROOT_ACCESS_KEY_ID": ACCESS,
        "ROOT_SECRET_ACCESS_KEY": SECRET,
        "VGW_REGION": REGION,
    }
    started = command(gateway_program(), gateway.port, folder)
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(started, env=variables, stdout=output, stderr=output)
        try:
            until = time.monotonic() + 60
            while not listens(gateway.port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
            yield gateway
        finally:
            process.terminate()
            process.wait(30)


@dataclass
class Faults:
    """The faults of a proxy, by the method and path of a request.

    A fault that is taken returns true. `lose_answer` forwards the request and closes the connection
    without an answer; `conflict` answers 409, and `deny` 403, and they forward nothing.
    `ignored_in` is the folder of a bucket whose files are removed before a conditional request: the
    store then ignores conditions.
    """

    lose_answer: Callable[[str, str], bool] = field(default=lambda method, path: False)
    conflict: Callable[[str, str], bool] = field(default=lambda method, path: False)
    deny: Callable[[str, str], bool] = field(default=lambda method, path: False)
    ignored_in: Path | None = None
    seen: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Forward everything again."""
        self.lose_answer = self.conflict = self.deny = lambda method, path: False
        self.ignored_in = None
        self.seen.clear()


def times(number: int, method: str, part: str) -> Callable[[str, str], bool]:
    """Return a fault that is taken for the first requests of a method, with a part in the path."""
    left = [number]

    def taken(given: str, path: str) -> bool:
        if given != method or part not in path or left[0] == 0:
            return False
        left[0] -= 1
        return True

    return taken


@contextlib.contextmanager
def running_proxy(target: int, faults: Faults) -> Iterator[int]:
    """Start a proxy in front of a port, and yield its own port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            faults.seen.append(f"{self.command} {self.path}")
            if faults.conflict(self.command, self.path):
                self.answer(409, [], b"<Error><Code>ConditionalRequestConflict</Code></Error>")
                return
            if faults.deny(self.command, self.path):
                self.answer(403, [], b"<Error><Code>AccessDenied</Code></Error>")
                return
            headers = dict(self.headers.items())
            if faults.ignored_in and "If-None-Match" in self.headers:
                key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
                (faults.ignored_in / key).unlink(missing_ok=True)
            upstream = http.client.HTTPConnection("127.0.0.1", target, timeout=60)
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
            upstream.close()
            if faults.lose_answer(self.command, self.path):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.answer(answer.status, answer.getheaders(), content)

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            given = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            if "content-length" not in given:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
