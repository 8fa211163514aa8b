"""The promises to readers of a table that a branch breaks: contracts and policies. Pure.

A contract breaks by dbt's rules. A column is removed, changes its type or loses a constraint, or
the table loses its name or its enforced contract. A policy breaks if a table loses its owner or
on-call contact. It also breaks if an incremental model loses what its runs need of a table: the
change feed, and retention for the time between them. Other differences in declarations are shown
and break nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headwaters.analysis import strategy_of
from headwaters.platform.nodes import Node, has_table, owner_of, table_name
from headwaters.review.facts import Finding
from headwaters.streams.contract import CHANGE_FEED
from headwaters.tables.properties import declared_properties
from headwaters.tables.retention import feed_retention_problems, stream_retention_problems

_CONTACT = "catalog.engineering.comms."


def broken(key: str, base: Mapping[str, Node], head: Mapping[str, Node]) -> tuple[Finding, ...]:
    """Return the promises of one table that the branch breaks, from the nodes of both sides."""
    before, after = base.get(key), head.get(key)
    place = str((after or before or {}).get("original_file_path", ""))
    found = [Finding("contract", text, True, place) for text in _contract(before, after)]
    if after is not None:
        known = set(_needs(before, base))
        needs = (text for text in _needs(after, head) if text not in known)
        policy = (*_ownership(before, after), *needs, *_feeds(after, base, head))
        found += [Finding("property", text, True, place) for text in policy]
    return tuple(found)


def _contract(before: Node | None, after: Node | None) -> Iterator[str]:
    if before is None or not _is_enforced(before):
        return
    if after is None or not has_table(after):
        yield "the table is removed"
        return
    if table_name(before) != table_name(after):
        yield f"the table is {table_name(after)} now"
    if not _is_enforced(after):
        yield "the contract is no longer enforced"
    if _constraints(before) - _constraints(after):
        yield "a constraint is removed or differs"
    columns = {name.lower(): column for name, column in after["columns"].items()}
    for name, column in before["columns"].items():
        now = columns.get(name.lower())
        if now is None:
            yield f"column {name} is removed"
            continue
        if _type(column) != _type(now):
            types = column.get("data_type"), now.get("data_type")
            yield f"column {name} was {types[0] or 'of no type'}, is {types[1] or 'of no type'}"
        if _constraints(column) - _constraints(now):
            yield f"column {name}: a constraint is removed or differs"


def _is_enforced(node: Node) -> bool:
    return bool((node["config"].get("contract") or {}).get("enforced"))


def _type(column: Mapping[str, Any]) -> str:
    return "".join(str(column.get("data_type") or "").lower().split())


def _constraints(declared: Mapping[str, Any]) -> set[str]:
    """Return each constraint as a text, without the level of dbt's warnings about it."""
    return {
        repr(sorted((k, str(v)) for k, v in one.items() if v and not k.startswith("warn_")))
        for one in declared.get("constraints") or ()
    }


def _ownership(before: Node | None, after: Node) -> Iterator[str]:
    if before is None:
        return
    if (owner := owner_of(before)) and not owner_of(after):
        yield f"no owner, it was {owner}: name one in catalog.team_name"
    if _contacts(before) and not _contacts(after):
        yield f"no on-call contact: name one in {_CONTACT}slack or {_CONTACT}email"


def _contacts(node: Node) -> list[str]:
    return [name for name in declared_properties(node["config"]) if name.startswith(_CONTACT)]


def _needs(node: Node | None, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield the retention problems of a model's inputs or of a stream's table."""
    if node is None:
        return
    of_type = {
        "model": lambda: feed_retention_problems(node, nodes),
        "source": lambda: stream_retention_problems(node),
    }
    if check := of_type.get(node["resource_type"]):
        yield from (str(problem) for problem in check())


def _feeds(node: Node, base: Mapping[str, Node], head: Mapping[str, Node]) -> Iterator[str]:
    """Yield the inputs of a model that lose their change feed."""
    if node["resource_type"] != "model" or not strategy_of(node["config"]):
        return
    for parent in node["depends_on"]["nodes"]:
        one, other = base.get(parent), head.get(parent)
        if one and other and _has_feed(one) and not _has_feed(other):
            yield f"{table_name(one)}, which it follows, loses its change feed ({CHANGE_FEED[0]})"


def _has_feed(node: Node) -> bool:
    return CHANGE_FEED in declared_properties(node["config"]).items()
