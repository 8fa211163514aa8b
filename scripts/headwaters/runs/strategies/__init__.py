"""The strategies of runs, one class each.

Other wings know them by headwaters.analysis.strategies.
"""

from __future__ import annotations

from headwaters.runs.model import Model
from headwaters.runs.strategies.affected_keys import AffectedKeys, LedKeys
from headwaters.runs.strategies.base import Strategy
from headwaters.runs.strategies.change_feed import ChangeFeed
from headwaters.runs.strategies.history import History
from headwaters.runs.strategies.latest_by import LatestBy
from headwaters.runs.strategies.signed_sum import SignedSum
from headwaters.runs.strategies.staged import Compared, Replaced, Staged

STRATEGIES: dict[str, type[Strategy]] = {
    "change_feed": ChangeFeed,
    "latest_by": LatestBy,
    "affected_keys": AffectedKeys,
    "led_keys": LedKeys,
    "signed_sum": SignedSum,
    "history": History,
    "replace": Replaced,
    "staged": Staged,
    "compared": Compared,
    # the derived strategy replaces it: see settling.py
    "auto": Replaced,
}


def strategy_for(model: Model) -> Strategy:
    """Return the strategy that maintains a model."""
    return STRATEGIES[model.strategy.name](model)
