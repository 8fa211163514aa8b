"""The list of incremental strategies that follow change data feeds.

A strategy is a row here, a class in headwaters.runs.strategies with its hooks, and the macro that
marks its inputs. Each field is a fact that other wings read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# The rule books of headwaters.analysis, which prove a model's SQL.
RuleBook = Literal["linear", "sums", "keyed", "whole"]
# The changes of SQL that a table can follow without a rebuild: `rows`, all that its rows determine
# one by one; `appended`, columns after the existing ones, and conditions over the key; `keys`,
# conditions over the key. See headwaters.analysis.query_change.
Patch = Literal["rows", "appended", "keys", "never"]


@dataclass(frozen=True)
class StrategyFacts:
    """A way to maintain a model.

    `name` is that of its class in headwaters.runs.strategies. `configured_as` is the value in a
    model's configuration; the setting `chosen_by` selects one of two ways that share it. `marker`
    is the macro around the inputs that it follows: one, or several with `many_inputs`.
    """

    name: str
    configured_as: str
    marker: str
    chosen_by: str | None = None
    rules: RuleBook = "linear"
    many_inputs: bool = False
    on_gap: Literal["rebuild", "fail"] = "rebuild"
    # The model must name its unique_key.
    needs_key: bool = True
    # Without a unique_key, all columns identify the rows, and equal rows are counted.
    may_lack_key: bool = False
    # Columns that identify the rows together with unique_key.
    further_keys: tuple[str, ...] = ()
    # Column names that its statements use.
    reserved: tuple[str, ...] = ("_image",)
    # Its tables keep rows that the inputs no longer have.
    keeps_past: bool = False
    # Expectations may drop rows, because the remaining ones do not depend on them.
    may_drop_rows: bool = True
    # on_lookup_change may be ignore.
    may_ignore_lookups: bool = True
    # A run computes the rows that it replaces from the change feed, and does not read the table.
    computes_old_rows: bool = False
    patch: Patch = "never"
    # Only a derivation chooses it, never a configuration.
    is_derived: bool = False


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        StrategyFacts(
            "change_feed",
            "change_feed",
            "changes",
            needs_key=False,
            may_lack_key=True,
            computes_old_rows=True,
            patch="rows",
        ),
        # If rows tie in `latest_by`, the other columns decide, in their order.
        StrategyFacts(
            "latest_by",
            "change_feed",
            "changes",
            chosen_by="latest_by",
            patch="appended",
        ),
        StrategyFacts(
            "affected_keys",
            "affected_keys",
            "affected",
            rules="keyed",
            many_inputs=True,
            needs_key=False,
            may_lack_key=True,
            patch="rows",
        ),
        # Only a derived model has leads.
        StrategyFacts(
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
        StrategyFacts(
            "signed_sum",
            "signed_sum",
            "signed",
            rules="sums",
            reserved=("_here", "_stays"),
            may_drop_rows=False,
            may_ignore_lookups=False,
            patch="keys",
        ),
        StrategyFacts(
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
        StrategyFacts(
            "replace",
            "replace",
            "lookup",
            rules="whole",
            many_inputs=True,
            may_ignore_lookups=False,
            needs_key=False,
            patch="rows",
        ),
        # The strategy of a replaced table that computes a part of itself from hidden tables.
        StrategyFacts(
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
        # The strategy of a single run, which computes the whole table and writes the differing
        # rows: headwaters.runs.comparing.
        StrategyFacts(
            "compared",
            "compared",
            "lookup",
            rules="whole",
            many_inputs=True,
            needs_key=False,
            may_lack_key=True,
            is_derived=True,
        ),
        # It stands for the derived strategy: headwaters.analysis.derive.
        StrategyFacts("auto", "auto", "ref", rules="whole", many_inputs=True, needs_key=False),
    )
}


def strategy_of(config: Mapping[str, Any]) -> StrategyFacts | None:
    """Return the strategy of a model by its configuration; None for a model of another kind.

    A table or a view may inherit the `incremental_strategy` of its folder, which has no effect on
    it.
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
    """Return the values of `incremental_strategy` for models that follow change data feeds."""
    named = (strategy for strategy in STRATEGIES.values() if not strategy.is_derived)
    return list(dict.fromkeys(strategy.configured_as for strategy in named))
