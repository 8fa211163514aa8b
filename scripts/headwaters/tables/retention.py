"""Rules between nodes: a table retains its changes until all readers have read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from headwaters.analysis import strategy_of
from headwaters.platform.nodes import Node, setting, table_name
from headwaters.platform.problems import Problem
from headwaters.platform.units import milliseconds_of
from headwaters.tables.properties import declared_properties
from headwaters.tables.settings import ModelSettings

# Delta's defaults.
FILES = "delta.deletedFileRetentionDuration"
DEFAULTS = {
    FILES: "interval 1 week",
    "delta.logRetentionDuration": "interval 30 days",
}
_TRANSACTIONS = "delta.setTransactionRetentionDuration"


def feed_retention_problems(node: Node, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    """Yield a problem for each followed input that retains changes for less than `runs_every`.

    A run needs all changes since the previous one. `nodes` has all possible inputs, by id.
    """
    given = ModelSettings.of(node["config"]).runs_every
    every = milliseconds_of(given or "")
    if every is None or strategy_of(node["config"]) is None:
        return
    inputs = (nodes[name] for name in node["depends_on"]["nodes"] if name in nodes)
    for table in inputs:
        declared = declared_properties(table["config"])
        for name, default in DEFAULTS.items():
            retained = declared.get(name, default)
            if _is_shorter(retained, every):
                yield Problem(
                    "HW_SHORT_RETENTION",
                    f"{table_name(node)} runs every {given} and follows the changes of "
                    f"{table_name(table)}, which keeps them for {retained} only ({name}): what "
                    "changed in between would be lost. Retain them longer, or run more often.",
                )


def stream_retention_problems(source: Node) -> Iterator[Problem]:
    """Yield a problem if a stream's table retains transactions for less than its trigger.

    The stream recognizes its batches by these transactions.
    """
    config = source["config"]
    trigger = (setting(config, "stream") or {}).get("trigger")
    retained = declared_properties(config).get(_TRANSACTIONS)
    every = trigger * 1000 if _is_number(trigger) else milliseconds_of(trigger)
    if retained and every and _is_shorter(retained, every):
        yield Problem(
            "HW_SHORT_RETENTION",
            f"the stream {source['name']} writes every {trigger} to {table_name(source)}, which "
            f"retains its batches for {retained} only ({_TRANSACTIONS}): a batch could be written "
            "twice. Retain them longer, or leave the property out.",
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_shorter(retained: str, every: float) -> bool:
    length = milliseconds_of(retained)
    return length is not None and length < every
