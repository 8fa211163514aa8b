"""How a staged change set is written into its table, and why: pure functions.

A merge reads every column of each file in which a changed row may lie. An insert with the option
`replaceOn` finds the old rows by the columns of its condition alone, and is one commit
as well; it writes no change files where old rows are marked as deleted beside their files, so that
each reader of the change data feed computes them. See docs/decisions/0019-replace-by-keys.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# Delta takes an option that it does not know for none, and would overwrite the whole table: so the
# option is used where the engine is known to have it.
_DELTA = re.compile(r"Apache-Spark/\S+ Delta-Lake/(\d+)\.(\d+)")
_HAS_REPLACE_ON = (4, 4)

# Equal values of these types have equal hashes.
_HASHED = {"tinyint", "smallint", "int", "bigint", "boolean", "date", "string", "binary"}
_HASHED_WITH = ("decimal(", "timestamp")

# Keys that are deleted stand in the condition, which the commit keeps: 20 bytes each.
MOST_DELETED = 5_000
# A merge's change files are cheaper to read: that counts where many models do.
MOST_FOLLOWERS = 3


@dataclass(frozen=True)
class Write:
    """How the rows are written; `reason`: why by a merge."""

    way: Literal["insert", "replace", "merge"]
    reason: str = ""


def way_of_writing(
    look: Mapping[str, Any], apply_by: str | None, engine: str, followers: int
) -> Write:
    """How to write what the macro `hw_inspect_staged` looked at.

    `apply_by` is the model's setting; `engine` what wrote the table's newest commit, which is the
    one that writes now; `followers`: how many models read this commit in the change data feed.
    """
    if look["rows"] == look["inserted"]:
        return Write("insert")
    if apply_by == "merge":
        return Write("merge", "as apply_by says")
    if not has_replace_on(engine):
        return Write("merge", f"{engine or 'the engine'} is not known to replace by keys")
    if followers > MOST_FOLLOWERS:
        return Write("merge", f"{followers} models follow the table")
    if look["deleted"]:
        if look["deleted"] == look["rows"]:
            return Write("merge", "rows are only deleted")
        if look["deleted"] > MOST_DELETED:
            return Write("merge", f"more than {MOST_DELETED} rows are deleted")
        for type_ in look["key_types"]:
            if type_ not in _HASHED and not type_.startswith(_HASHED_WITH):
                return Write("merge", f"a key of type {type_} cannot be told by its hash")
    return Write("replace")


def most_deleted() -> int:
    """How many keys of deleted rows are listed: with more, rows are not replaced by their keys."""
    return MOST_DELETED


def has_replace_on(engine: str) -> bool:
    """Whether a commit's `engineInfo` is of an engine with the option `replaceOn`."""
    match = _DELTA.match(engine)
    return match is not None and (int(match[1]), int(match[2])) >= _HAS_REPLACE_ON


def is_one_of(value: str, numbers: Sequence[int]) -> str:
    """SQL: whether a bigint is one of some others. A list of literals would be searched as slowly
    as it is long, and parsed as slowly: these are in as many buckets as there are numbers.
    """
    buckets: list[list[int]] = [[] for _ in numbers]
    for number in numbers:
        buckets[number % len(buckets)].append(number)
    text = f"[{','.join(_array(bucket) for bucket in buckets)}]"
    bucket = f"cast(1 + pmod({value}, {len(buckets)}) as int)"
    return (
        f"array_contains(element_at(from_json('{text}', 'array<array<bigint>>'), {bucket}),"
        f" {value})"
    )


def _array(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
