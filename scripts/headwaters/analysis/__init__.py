"""The analysis of models' SQL. Other parts import from here alone.

- proofs: `refusal_of`, `problem_of_unread`; with a table they are noted (`noted_proof`);
- derivations: `derivation` chooses strategy and inputs of a model in plain SQL;
- comparisons: `is_same_query`, `keeps_meaning`, `patch_of`, `same_inputs`, `without_format`;
- the origins of columns: `origins_of`;
- parts of a compiled query: `tokens`, `prepared`, `relations_in`, `called`, `weight_column`;
- parts of a nested type: `parts_of_type`;
- declarations: strategies and expectations.

Names that need the parser are resolved at first use: importing it takes an eighth of a second, and
most runs prove nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwaters.analysis.expectations import expectation_problems, expectations_of
from headwaters.analysis.origins import (
    ROWS,
    NotAnalysed,
    Origin,
    OriginKind,
    Origins,
    QueryOrigins,
    as_rows,
    joined_origins,
)
from headwaters.analysis.proof_note import TypedColumn, added_columns, columns_digest, noted_proof
from headwaters.analysis.sql_text import (
    Name,
    Token,
    called,
    dotted_names,
    parts_of,
    prepared,
    relation_names,
    relations_in,
    source_of,
    tokens,
    with_names,
    with_relations,
    without_format,
)
from headwaters.analysis.strategies import STRATEGIES, StrategyFacts, strategy_names, strategy_of

if TYPE_CHECKING:
    from headwaters.analysis.column_origins import origins_of
    from headwaters.analysis.exact_types import are_exact
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
    from headwaters.analysis.nested_types import parts_of_type
    from headwaters.analysis.pairs import pairs_all_rows
    from headwaters.analysis.plain_columns import columns_alone
    from headwaters.analysis.weights import weight_column

__all__ = [
    "ROWS",
    "STRATEGIES",
    "Name",
    "NotAnalysed",
    "Origin",
    "OriginKind",
    "Origins",
    "Patch",
    "QueryOrigins",
    "StrategyFacts",
    "Token",
    "TypedColumn",
    "added_columns",
    "are_exact",
    "as_rows",
    "called",
    "columns_alone",
    "columns_digest",
    "derivation",
    "dotted_names",
    "expectation_problems",
    "expectations_of",
    "is_same_query",
    "joined_origins",
    "keeps_meaning",
    "noted_proof",
    "origins_of",
    "pairs_all_rows",
    "parts_of",
    "parts_of_type",
    "patch_of",
    "prepared",
    "problem_of_unread",
    "refusal_of",
    "relation_names",
    "relations_in",
    "same_inputs",
    "source_of",
    "strategy_names",
    "strategy_of",
    "tokens",
    "used_columns",
    "weight_column",
    "with_names",
    "with_relations",
    "without_format",
]

_MODULES = {
    "origins_of": "column_origins",
    "are_exact": "exact_types",
    "columns_alone": "plain_columns",
    "pairs_all_rows": "pairs",
    "parts_of_type": "nested_types",
    "weight_column": "weights",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'model')}"), name)
