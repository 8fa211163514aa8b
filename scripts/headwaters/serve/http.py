"""HTTP as uvicorn has it with a compiled parser (httptools), and a limit to what is no body.

A connection's memory is bounded then: the parser itself gathers a header of any size.
"""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_OUTSIDE = 1 << 16  # bytes of the head of a request, and of what surrounds chunks of its body


class BoundedProtocol(HttpToolsProtocol):
    """Refuses a request with a larger head, or with larger trailers."""

    _outside = _headers = 0

    def data_received(self, data: bytes) -> None:
        """Count what comes, less what is body."""
        self._outside += len(data)
        super().data_received(data)
        if self._outside > MOST_OUTSIDE and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """The beginning of a request."""
        self._headers = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or a trailer, any number of which may come at once, with body around them."""
        self._headers += len(name) + len(value)
        if self._headers > MOST_OUTSIDE:
            raise ValueError("The head of the request is too large.")  # answered with 400
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Part of a body."""
        self._outside -= len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """The end of a chunk: trailers may follow the last."""
        self._outside = 0

    def on_message_complete(self) -> None:
        """The end of a request: another may be in the same data."""
        self._outside = 0
        super().on_message_complete()


def configured(application: ASGIApp, **settings: Any) -> uvicorn.Config:
    """How the front door is served."""
    return uvicorn.Config(
        application,
        http=BoundedProtocol,
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # the application sees to it
        lifespan="on",
        **settings,
    )
