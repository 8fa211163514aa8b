"""The incremental strategies that follow change data feeds: the one list of them.

A strategy is a row here, a class in headwaters.runs.strategies with its hooks, and the macro that
marks its inputs. A column of this list is a fact that other wings read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# The rule books of headwaters.analysis, by which a model's SQL is proven.
RuleBook = Literal["linear", "sums", "keyed", "whole"]
# What of a change of SQL a table can follow without a rebuild: `rows`, all that is computed from
# its rows one by one; `appended`, columns after its own, and conditions over its key; `keys`,
# conditions over its key. See headwaters.analysis.changed.
Patch = Literal["rows", "appended", "keys", "never"]


@dataclass(frozen=True)
class Strategy:
    """How a model is maintained.

    `name` is that of its class in headwaters.runs.strategies; `configured_as` is what a model's
    configuration says, with the setting `chosen_by` where one strategy has two ways; `marker` is
    the macro around the inputs that it follows, one or `many_inputs` of them.
    """

    name: str
    configured_as: str
    marker: str
    chosen_by: str | None = None
    rules: RuleBook = "linear"
    many_inputs: bool = False
    on_gap: Literal["rebuild", "fail"] = "rebuild"
    # The model names its unique_key.
    needs_key: bool = True
    # Without a unique_key its rows are told apart by all of their columns, and counted.
    may_lack_key: bool = False
    # Its rows are told apart by unique_key and these columns.
    further_keys: tuple[str, ...] = ()
    # Names that its statements give to columns of their own.
    reserved: tuple[str, ...] = ("_image",)
    # A table of it keeps rows that its inputs no longer have.
    keeps_past: bool = False
    # Expectations may leave rows out: those that stay do not depend on them.
    may_drop_rows: bool = True
    # on_lookup_change may be ignore.
    may_ignore_lookups: bool = True
    # The rows that a run replaces are computed from the change feed, not read from the table.
    computes_old_rows: bool = False
    patch: Patch = "never"
    # No configuration names it: it is derived.
    is_derived: bool = False


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            "change_feed",
            "change_feed",
            "changes",
            needs_key=False,
            may_lack_key=True,
            computes_old_rows=True,
            patch="rows",
        ),
        # Of rows that are equal in `latest_by` the rest of the row decides, in its order.
        Strategy(
            "latest_by",
            "change_feed",
            "changes",
            chosen_by="latest_by",
            patch="appended",
        ),
        Strategy(
            "affected_keys",
            "affected_keys",
            "affected",
            rules="keyed",
            many_inputs=True,
            needs_key=False,
            may_lack_key=True,
            patch="rows",
        ),
        # Only what is derived has leads.
        Strategy(
            "led_keys",
            "affected_keys",
            "affected",
            chosen_by="leads",
            rules="keyed",
            many_inputs=True,
            needs_key=False,
            may_lack_key=True,
            patch="rows",
        ),
        Strategy(
            "signed_sum",
            "signed_sum",
            "signed",
            rules="sums",
            reserved=("_here", "_stays"),
            may_drop_rows=False,
            may_ignore_lookups=False,
            patch="keys",
        ),
        Strategy(
            "history",
            "history",
            "images",
            on_gap="fail",
            further_keys=("valid_from",),
            reserved=(
                *("valid_from", "valid_to", "is_current"),
                *("_superseded", "_cut", "_until", "_next"),
            ),
            keeps_past=True,
            may_drop_rows=False,
        ),
        Strategy(
            "replace",
            "replace",
            "lookup",
            rules="whole",
            many_inputs=True,
            may_ignore_lookups=False,
            needs_key=False,
            patch="rows",
        ),
        # The way of what is replaced that computes a part of it from hidden tables.
        Strategy(
            "staged",
            "staged",
            "affected",
            chosen_by="stages",
            rules="whole",
            many_inputs=True,
            needs_key=False,
            may_lack_key=True,
            may_ignore_lookups=False,
            is_derived=True,
        ),
        # Stands for the one that is derived: headwaters.analysis.derive.
        Strategy("auto", "auto", "ref", rules="whole", many_inputs=True, needs_key=False),
    )
}


def strategy_of(config: Mapping[str, Any]) -> Strategy | None:
    """Return the strategy of a model by its configuration; None for a model of another kind.

    A table or a view may have the `incremental_strategy` of its folder, which means nothing there.
    """
    found = None
    if config.get("materialized", "incremental") != "incremental":
        return None
    for strategy in STRATEGIES.values():
        if strategy.configured_as != config.get("incremental_strategy"):
            continue
        if strategy.chosen_by is None or config.get(strategy.chosen_by):
            found = strategy
    return found


def strategy_names() -> list[str]:
    """What `incremental_strategy` may be for a model that follows change data feeds."""
    named = (strategy for strategy in STRATEGIES.values() if not strategy.is_derived)
    return list(dict.fromkeys(strategy.configured_as for strategy in named))
