"""Compare the list of functions with Spark's own registry."""

from __future__ import annotations

import re
from typing import Any

from headwaters.platform import spark_version

# Functions of Spark that the analysis does not understand, by their first letters or in full.
FAMILIES = ("kll_", "st_", "theta_", "tuple_", "vector_")
OTHERS = {
    *("case", "collations", "from_protobuf", "measure", "python_worker_logs"),
    *("schema_of_variant_agg", "sql_keywords", "to_protobuf"),
}
# Operators are in Spark's registry as well.
OPERATORS = {"and", "between", "in", "not", "or"}
# Functions of Spark's grammar, which no registry has.
OF_THE_GRAMMAR = {"timestampadd", "timestampdiff"}


def test_every_function_of_spark_is_in_one_list(spark: Any) -> None:
    listed = {row[0] for row in spark.sql("show system functions").collect()}
    functions = {name for name in listed if re.match(r"[a-z]", name)} - OPERATORS
    ours = (
        spark_version.STABLE_FUNCTIONS
        | spark_version.CHANGING_FUNCTIONS
        | spark_version.TABLE_FUNCTIONS
    )
    assert ours > spark_version.BARE_FUNCTIONS
    others = {name for name in functions if name.startswith(FAMILIES)} | OTHERS
    assert {"unlisted": functions - ours - others, "unknown to Spark": ours - functions} == {
        "unlisted": set(),
        "unknown to Spark": OF_THE_GRAMMAR,
    }
    assert others & ours == set()
    assert functions >= others
