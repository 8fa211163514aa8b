"""Send simulated streams to an HTTP endpoint, as an application would."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from headwaters.platform.errors import UserError, WorkError

A_REQUEST = 100  # records; an answer lists as many refused ones
PATIENCE = 60.0  # seconds to retry a request


@dataclass
class Sent:
    """The counts of a stream's records by result."""

    accepted: int = 0
    refused: int = 0


class Client:
    """A client of an HTTP endpoint; its key, if it needs one, is in an environment variable."""

    def __init__(self, url: str, key_from: str) -> None:
        """Connect to an HTTP endpoint. Raises UserError for an invalid URL."""
        parts = urlsplit(url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        try:
            kind, port = kinds[parts.scheme], parts.port
        except (KeyError, ValueError):
            kind, port = None, None
        if kind is None or not parts.hostname:
            raise UserError(
                "HW_ARGUMENT", f"--to-http {url} is no address: write http://127.0.0.1:8080"
            )
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._connection = kind(parts.hostname, port, timeout=60)
        key = (os.environ.get(key_from) or "").replace(",", " ").split()
        self._headers = {"Content-Type": "application/x-ndjson"}
        self._headers |= {"Authorization": f"Bearer {key[0]}"} if key else {}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def send(self, stream: str, records: Sequence[str]) -> Sent:
        """Send records in one request. If some are refused, send the others again.

        Raises WorkError if the endpoint does not take the request.
        """
        body = "".join(f"{record}\n" for record in records).encode()
        code, answer = self._post(f"{self._path}/streams/{stream}", body)
        if code == 201:
            return Sent(accepted=len(records))
        if code == 400 and answer.get("records"):
            bad = {record["index"] for record in answer["records"]}
            good = [record for index, record in enumerate(records) if index not in bad]
            rest = self.send(stream, good) if good else Sent()
            return Sent(rest.accepted, rest.refused + len(bad))
        raise WorkError(
            "HW_HTTP_ENDPOINT",
            f"{self.url} does not take {stream} ({code}): {answer.get('message')}",
        )

    def _post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the answer of a request. Retry it if the endpoint wrote nothing."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection.request("POST", path, body, self._headers)
                response = self._connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                raise WorkError(
                    "HW_HTTP_ENDPOINT", f"no HTTP endpoint answers at {self.url}: {error}"
                ) from None
            try:
                answer = json.loads(text)
            except ValueError:
                answer = {"message": "it is no HTTP endpoint"}
            again = response.status == 429 or answer.get("outcome") == "none"
            if not again or time.monotonic() > until:
                return response.status, answer
            time.sleep(float(response.headers.get("Retry-After", "1")))


def post(streams: Mapping[str, Iterable[str]], url: str, key_from: str) -> dict[str, Sent]:
    """Send records, by stream, to the streams of these names; return the counts."""
    numbers = {}
    with closing(Client(url, key_from)) as client:
        for stream, values in streams.items():
            total = numbers[stream] = Sent()
            for part in _parts(values):
                sent = client.send(stream, part)
                total.accepted += sent.accepted
                total.refused += sent.refused
    return numbers


def _parts(records: Iterable[str]) -> Iterator[list[str]]:
    left = iter(records)
    while part := list(islice(left, A_REQUEST)):
        yield part
