"""The nearest existing names of misspelt ones, and the name of the user."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable
from difflib import get_close_matches


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
    name. One edit makes a slip: a letter too many, missing, replaced or in another order. Long
    names may have two.
    """
    names = list(names)
    if given in names:
        return None
    text = str(given).lower().replace("-", "_")
    return next((name for name in names if _is_slip(text, name)), None)


def _is_slip(text: str, name: str) -> bool:
    """Return true if a text is a name in other letters, or a slip of it."""
    if text == name or text in _plurals(name) or name in _plurals(text):
        return True
    length = len(name)
    if length < 4 or abs(len(text) - length) > 2:
        return False
    edits = _edits(text, name)
    if edits > 1:
        return edits == 2 and length > 9 and _differs_in_long_words(text, name)
    # other words differ from a short name by one letter: `owned` from `owner`
    is_mixed, more = sorted(text) == sorted(name), len(text) - length
    return is_mixed or length > 5 or more < 0 or (length == 5 and more > 0)


def _plurals(name: str) -> tuple[str, ...]:
    """Return the plurals of a long name that differ from it by several letters."""
    return (f"{name}es", f"{name[:-1]}ies") if len(name) > 9 else ()


def _differs_in_long_words(text: str, name: str) -> bool:
    """Return true unless both edits are in one short word: `updated_by` is no `updated_at`."""
    words, others = text.split("_"), name.split("_")
    return len(words) != len(others) or all(
        _edits(word, other) <= (2 if len(other) > 9 else 1)
        for word, other in zip(words, others, strict=True)
    )


def _edits(text: str, name: str) -> int:
    """Return the number of inserted, deleted, replaced and transposed letters."""
    before: list[int] = []
    last = list(range(len(name) + 1))
    for i, letter in enumerate(text, 1):
        row = [i]
        for j, other in enumerate(name, 1):
            edits = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            if before and j > 1 and letter == name[j - 2] and other == text[i - 2]:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        before, last = last, row
    return last[-1]


def user_name() -> str:
    """Return HEADWATERS_USER, or the name of this process's user: `uid 1000` if it has none."""
    try:
        return os.environ.get("HEADWATERS_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number
        return f"uid {os.getuid()}"
