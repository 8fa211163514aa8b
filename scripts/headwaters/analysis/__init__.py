"""The analysis of models' SQL. Other parts import from here alone.

- proofs: `refusal_of`, `problem_of_unread`; with a table they are noted (`noted_proof`);
- derivations: `derivation` chooses strategy and inputs of a model in plain SQL, and
  `helpful_declaration` names a key that would let runs follow more;
- comparisons: `is_same_query`, `keeps_meaning`, `patch_of`, `same_inputs`, `without_format`;
- the origins of columns: `origins_of`;
- parts of a compiled query: `tokens`, `prepared`, `relations_in`, `called`, `weight_column`,
  `without_shifts`;
- parts of a nested type: `parts_of_type`;
- declarations: strategies and expectations;
- the rows that a run writes: `as_stored`, `kept_sql`, `is_met`.

Names that need the parser are resolved at first use: importing it takes an eighth of a second, and
most runs prove nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwaters.analysis.expectations import expectation_problems as expectation_problems
from headwaters.analysis.expectations import expectations_of as expectations_of
from headwaters.analysis.origins import ROWS as ROWS
from headwaters.analysis.origins import NotAnalysed as NotAnalysed
from headwaters.analysis.origins import Origin as Origin
from headwaters.analysis.origins import OriginKind as OriginKind
from headwaters.analysis.origins import Origins as Origins
from headwaters.analysis.origins import QueryOrigins as QueryOrigins
from headwaters.analysis.origins import as_rows as as_rows
from headwaters.analysis.origins import joined_origins as joined_origins
from headwaters.analysis.proof_note import TypedColumn as TypedColumn
from headwaters.analysis.proof_note import added_columns as added_columns
from headwaters.analysis.proof_note import columns_digest as columns_digest
from headwaters.analysis.proof_note import noted_proof as noted_proof
from headwaters.analysis.sql_text import Name as Name
from headwaters.analysis.sql_text import Token as Token
from headwaters.analysis.sql_text import called as called
from headwaters.analysis.sql_text import dotted_names as dotted_names
from headwaters.analysis.sql_text import missing_commas as missing_commas
from headwaters.analysis.sql_text import parts_of as parts_of
from headwaters.analysis.sql_text import prepared as prepared
from headwaters.analysis.sql_text import relation_names as relation_names
from headwaters.analysis.sql_text import relations_in as relations_in
from headwaters.analysis.sql_text import source_of as source_of
from headwaters.analysis.sql_text import tokens as tokens
from headwaters.analysis.sql_text import with_names as with_names
from headwaters.analysis.sql_text import with_relations as with_relations
from headwaters.analysis.sql_text import without_format as without_format
from headwaters.analysis.strategies import STRATEGIES as STRATEGIES
from headwaters.analysis.strategies import StrategyFacts as StrategyFacts
from headwaters.analysis.strategies import strategy_names as strategy_names
from headwaters.analysis.strategies import strategy_of as strategy_of
from headwaters.analysis.written_rows import all_met as all_met
from headwaters.analysis.written_rows import as_stored as as_stored
from headwaters.analysis.written_rows import is_met as is_met
from headwaters.analysis.written_rows import kept_if as kept_if
from headwaters.analysis.written_rows import kept_sql as kept_sql
from headwaters.analysis.written_rows import moment_as_text as moment_as_text
from headwaters.analysis.written_rows import stored_value as stored_value
from headwaters.analysis.written_rows import with_kept_partitions as with_kept_partitions

if TYPE_CHECKING:
    from headwaters.analysis.column_origins import origins_of as origins_of
    from headwaters.analysis.exact_types import are_exact as are_exact
    from headwaters.analysis.model import Patch as Patch
    from headwaters.analysis.model import derivation as derivation
    from headwaters.analysis.model import helpful_declaration as helpful_declaration
    from headwaters.analysis.model import is_same_query as is_same_query
    from headwaters.analysis.model import keeps_meaning as keeps_meaning
    from headwaters.analysis.model import patch_of as patch_of
    from headwaters.analysis.model import problem_of_unread as problem_of_unread
    from headwaters.analysis.model import refusal_of as refusal_of
    from headwaters.analysis.model import same_inputs as same_inputs
    from headwaters.analysis.model import used_columns as used_columns
    from headwaters.analysis.model import without_shifts as without_shifts
    from headwaters.analysis.nested_types import parts_of_type as parts_of_type
    from headwaters.analysis.pairs import pairs_all_rows as pairs_all_rows
    from headwaters.analysis.plain_columns import columns_alone as columns_alone
    from headwaters.analysis.weights import weight_column as weight_column

# The names of the modules that need the parser.
_LATE = {
    "column_origins": ["origins_of"],
    "exact_types": ["are_exact"],
    "model": [
        *("Patch", "derivation", "is_same_query", "keeps_meaning", "patch_of"),
        *("problem_of_unread", "refusal_of", "same_inputs", "used_columns"),
        *("without_shifts", "helpful_declaration"),
    ],
    "nested_types": ["parts_of_type"],
    "pairs": ["pairs_all_rows"],
    "plain_columns": ["columns_alone"],
    "weights": ["weight_column"],
}
_MODULES = {name: module for module, names in _LATE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
