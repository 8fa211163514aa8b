"""The engine that runs on a lake: a local Spark Connect server, one warm Spark for many processes.

`<lake>/engine/engine.json` says where it listens, which process it is, and the token without which
it refuses a client: its owner alone may read the file. That the engine runs is told by the
metastore's lock, which the server inherits, never by that file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headwaters.errors import WorkError
from headwaters.servers import Server, listens

DEFAULT_PORT = 15002


@dataclass(frozen=True)
class Engine(Server):
    """A running engine."""

    token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Where it listens, as people may see it. A client needs `remote`."""
        return f"sc://localhost:{self.port}"

    @property
    def remote(self) -> str:
        """What Spark's `spark.remote` takes: the address with the token.

        The name is localhost, since Spark's client would want TLS at any other. Raises WorkError
        where somebody else listens at localhost's other address, and would be given the token.
        """
        if listens(self.port, "::1"):
            raise WorkError(
                "HW_PORT",
                f"another process listens at [::1]:{self.port}, beside the engine: start the "
                "engine again on another --port",
            )
        return f"{self.address}/;token={self.token}" if self.token else self.address


def find(lake: Path) -> Engine | None:
    """The engine that runs on this lake, or None."""
    return Engine.running(record(lake))


def record(lake: Path) -> Path:
    """The file that says where the engine is."""
    return lake / "engine" / "engine.json"


def answers(address: str) -> bool:
    """Whether something listens at a `spark.remote`; the client itself would retry for minutes."""
    url = urlsplit(address.split(";")[0])
    return listens(url.port or DEFAULT_PORT, url.hostname or "localhost")
