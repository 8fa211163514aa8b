"""What a table notes of its proof: known without reading any SQL, so without the parser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.analysis.promises import Graph, keys_of
from headwaters.declared.nodes import Config

# Changes whenever the rules accept something less: tables that were proven before are proven again.
RULES = "3"


def noted_proof(config: Config, inputs: Sequence[Mapping[str, Any]], graph: Graph) -> str:
    """What a table notes of how its model was proven: the rules, and the keys that they rely on.

    Where the strategy was derived, all that was; `sample` where rows are tried in place of a proof.
    """
    if config.get("derivation"):
        return json.dumps(config["derivation"], sort_keys=True)
    if config.get("incremental_proof") == "sample":
        return "sample"
    keys = {
        source: sorted(sorted(columns) for columns in unique)
        for source, unique in keys_of({spec["source"] for spec in inputs}, graph).items()
        if unique
    }
    return json.dumps({"rules": RULES, "keys": keys}, sort_keys=True)
