"""Prometheus metrics of a running `headwaters ingest`, over HTTP.

The format is Prometheus's text exposition format, version 0.0.4.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headwaters.errors import UserError
from headwaters.ingest import Stream


def render(streams: Sequence[Stream]) -> str:
    """All metrics of some streams, as text."""
    lines: list[str] = []

    def metric(name: str, kind: str, what: str, values: Sequence[tuple[str, float]]) -> None:
        lines.append(f"# HELP headwaters_{name} {what}")
        lines.append(f"# TYPE headwaters_{name} {kind}")
        lines.extend(f"headwaters_{name}{{{labels}}} {value}" for labels, value in values)

    named = [(f'stream="{stream.contract.name}"', stream) for stream in streams]
    metric("rows_total", "counter", "Rows written to bronze.", [(n, s.rows) for n, s in named])
    metric(
        "quarantined_total",
        "counter",
        "Records put into quarantine, by reason and field.",
        [(f'{n},reason="{reason}"', count) for n, s in named for reason, count in s.bad.items()],
    )
    metric("bronze_bytes", "gauge", "Size of bronze.", [(n, s.bytes) for n, s in named])
    metric("batches_total", "counter", "Batches done.", [(n, s.batches) for n, s in named])
    metric(
        "batch_seconds_total",
        "counter",
        "Time spent writing batches.",
        [(n, s.seconds) for n, s in named],
    )
    metric(
        "backlog",
        "gauge",
        "Files or records that no batch has taken yet.",
        [(f'{n},unit="{s.pending.unit}"', s.pending.number) for n, s in named if s.pending],
    )
    metric(
        "backlog_bytes",
        "gauge",
        "Bytes of the files that no batch has taken yet.",
        [(n, s.pending.size) for n, s in named if s.pending and s.pending.size is not None],
    )
    metric(
        "failed",
        "gauge",
        "1 while a stream is down after a failure.",
        [(n, float(s.error is not None)) for n, s in named],
    )
    return "\n".join(lines) + "\n"


@contextmanager
def serve(streams: Sequence[Stream], port: int) -> Iterator[int]:
    """Serve `/metrics` on 127.0.0.1 for as long as the context lasts; gives the port (0 = any).

    Raises UserError when the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = render(streams).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the terminal belongs to the progress display."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError:
        raise UserError(f"port {port} is taken: choose another --metrics-port") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
