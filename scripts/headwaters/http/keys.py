"""The keys of clients: from an environment variable, compared in constant time, never shown."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Sequence

from headwaters.platform.errors import UserError
from headwaters.platform.servers import LOOPBACK

SHORTEST = 16


class Keys:
    """The keys of clients; without keys, every client may send."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Keep the hashes of the keys."""
        self._hashes = [_hash(key) for key in keys]

    def __bool__(self) -> bool:
        """Return true if clients need a key."""
        return bool(self._hashes)

    def admit(self, authorization: str | None) -> bool:
        """Return true if a header `Authorization: Bearer …` has one of the keys.

        Comparisons take the same time for every header.
        """
        if not self._hashes:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        found = _hash(given.strip())
        same = [hmac.compare_digest(found, one) for one in self._hashes]
        return scheme.lower() == "bearer" and any(same)


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def keys_from(variable: str | None, host: str) -> Keys:
    """Return the keys in an environment variable, separated by blanks or commas.

    Raises UserError if the variable has no key or a key that is too short. Also raises it if no
    variable is named although other machines could send.
    """
    if variable is None:
        if host in LOOPBACK:
            return Keys(())
        raise UserError(
            "HW_SERVE_KEYS",
            f"--host {host}: without keys only this machine may send. Name the environment "
            "variable that has them: --keys-from HEADWATERS_SERVE_KEYS",
        )
    found = [key for key in re.split(r"[\s,]+", os.environ.get(variable, "")) if key]
    if not found:
        raise UserError(
            "HW_SERVE_KEYS",
            f"--keys-from: the environment variable {variable} has no key: set it to one or "
            "several, separated by blanks",
        )
    if any(len(key) < SHORTEST for key in found):
        raise UserError(
            "HW_SERVE_KEYS",
            f"--keys-from: a key in {variable} has less than {SHORTEST} characters: make one with "
            "`openssl rand -hex 32`",
        )
    return Keys(found)
