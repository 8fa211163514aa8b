"""The nearest existing names of misspelt ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

# Minimal similarity of a misspelt name: one or two letters differ, or their order.
_ALIKE, _MIXED = 0.85, 0.7


def nearest(given: object, names: Iterable[str], prefix: str = "") -> str | None:
    """Return the name most like the given one, ignoring case, or None if none is alike.

    `prefix` is common to all names, and does not count for similarity.
    """
    known: dict[str, str] = {}
    for name in names:
        known.setdefault(name.lower().removeprefix(prefix), name)
    found = get_close_matches(str(given).lower().removeprefix(prefix), known, n=1)
    return known[found[0]] if found else None


def did_you_mean(given: object, names: Iterable[str], prefix: str = "") -> str:
    """Return `, did you mean 'x'?`, or nothing."""
    near = nearest(given, names, prefix)
    return f", did you mean '{near}'?" if near else ""


def or_nearest(given: object, names: Iterable[str]) -> str:
    """Return `, did you mean 'x'`, or all existing names; without a mark at its end.

    A table given without its schema is compared with names without theirs.
    """
    names = list(names)
    alone = {name if "." in str(given) else name.rpartition(".")[2]: name for name in names}
    near = alone.get(nearest(given, alone) or "") or nearest(given, names)
    every = ", ".join(sorted(dict.fromkeys(names), key=str.lower))
    return f", did you mean '{near}'" if near else f", there are {every}"


def not_allowed(given: object, allowed: Iterable[str], what: str = "a key") -> str:
    """Return `'formt' is not a key here, did you mean 'format'? (allowed: format, path)`."""
    allowed = list(allowed)
    hint = did_you_mean(given, allowed)
    return f"'{given}' is not {what} here{hint} (allowed: {', '.join(allowed)})"


def misspelt(given: object, names: Iterable[str]) -> str | None:
    """Return the name that a text misspells; None for one of the names, and for any other word.

    Stricter than `nearest`: there the name is wrong in any case, but here the text may be a valid
    name.
    """
    names = list(names)
    if given in names:
        return None
    text = str(given).lower().replace("-", "_")
    for name in names:
        is_mixed = sorted(text) == sorted(name)
        if SequenceMatcher(None, text, name).ratio() >= (_MIXED if is_mixed else _ALIKE):
            return name
    return None
