"""The analysis of models' SQL: proofs, derivations and patches.

Other parts import from here, and the list of Spark's functions from `functions`. Names are resolved
at first use: importing the parser takes an eighth of a second, and most runs prove nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwaters.analysis.exact import are_exact
    from headwaters.analysis.model import (
        Patch,
        derivation,
        is_same_query,
        keeps_meaning,
        patch_of,
        problem_of_unread,
        refusal_of,
        same_inputs,
        used_columns,
    )
    from headwaters.analysis.plain_columns import columns_alone
    from headwaters.analysis.proof_note import added_columns, columns_digest, noted_proof

__all__ = [
    "Patch",
    "added_columns",
    "are_exact",
    "columns_alone",
    "columns_digest",
    "derivation",
    "is_same_query",
    "keeps_meaning",
    "noted_proof",
    "patch_of",
    "problem_of_unread",
    "refusal_of",
    "same_inputs",
    "used_columns",
]
_MODULES = {
    "are_exact": "exact",
    "columns_alone": "plain_columns",
    **dict.fromkeys(("added_columns", "columns_digest", "noted_proof"), "proof_note"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'model')}"), name)
