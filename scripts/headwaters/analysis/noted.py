"""What a table notes of its proof: known without reading any SQL, so without the parser."""

from __future__ import annotations

import json

from headwaters.declared.nodes import Config

# Changes whenever the rules accept something less: tables that were proven before are proven again.
RULES = "2"


def noted_proof(config: Config) -> str:
    """What a table notes of how its model was proven; all of it, where its strategy was derived."""
    if config.get("derivation"):
        return json.dumps(config["derivation"], sort_keys=True)
    return "sample" if config.get("incremental_proof") == "sample" else RULES
