"""The engine of a lake: a local Spark Connect server, one warm Spark for many processes.

`<lake>/engine/engine.json` has its address, its process, and the token that it requires from
clients; only its owner may read the file. The metastore's lock, which the server inherits, proves
that the engine runs. The file alone does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headwaters.platform.errors import WorkError
from headwaters.platform.servers import Server, listens

DEFAULT_PORT = 15002
# The `spark.remote` of the target `engine`, unless the environment names another one.
OF_THIS_LAKE = "the engine of this lake"

_used: set[Path] = set()


@dataclass(frozen=True)
class Engine(Server):
    """A running engine."""

    token: str = field(default="", repr=False)
    # its metastore is outside the lake, so other Sparks may work on the lake
    shares_metastore: bool = False

    @property
    def address(self) -> str:
        """Return its address for display. A client needs `remote`."""
        return f"sc://localhost:{self.port}"

    @property
    def remote(self) -> str:
        """Return the value of `spark.remote`: the address with the token.

        The name is localhost, because Spark's client requires TLS for any other. Raises WorkError
        if another process listens at localhost's other address, and would receive the token.
        """
        if listens(self.port, "::1"):
            raise WorkError(
                "HW_PORT",
                f"another process listens at [::1]:{self.port}, the engine's port: start the "
                "engine again on another --port",
            )
        return f"{self.address}/;token={self.token}" if self.token else self.address


def find(lake: Path) -> Engine | None:
    """Return the engine that runs on this lake, or None."""
    return Engine.running(record(lake))


@contextmanager
def used(lake: Path) -> Iterator[None]:
    """Let targets with an embedded Spark use the engine of their lake instead, in this process."""
    _used.add(lake.resolve())
    try:
        yield
    finally:
        _used.discard(lake.resolve())


def is_used(lake: Path) -> bool:
    """Return true in the context `used` of a lake."""
    return lake.resolve() in _used


def record(lake: Path) -> Path:
    """Return the file with the engine's address."""
    return lake / "engine" / "engine.json"


def answers(address: str) -> bool:
    """Return true if a server listens at a `spark.remote`; the client would retry for minutes."""
    url = urlsplit(address.split(";")[0])
    return listens(url.port or DEFAULT_PORT, url.hostname or "localhost")
