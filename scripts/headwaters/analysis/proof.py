"""The proof that a model's SQL can be maintained by its strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwaters.analysis import dialect, linear
from headwaters.analysis.changing import refuse_changing
from headwaters.analysis.keyed import KeyedRules
from headwaters.analysis.linear import LinearRules
from headwaters.analysis.moments import refuse_moments
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input, Relation
from headwaters.incremental.strategies import RuleBook


def prove(
    sql: str,
    inputs: Sequence[Input],
    rules: RuleBook,
    unique_key: Sequence[str],
    allowed: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
) -> Relation:
    """What the query is, if the rules of its strategy prove it. Raises Refused.

    `sql` names the inputs by their `name`; `allowed` are functions of `allow_nondeterministic`,
    `functions` SQL functions of a person's own, as expressions over their parameters.
    """
    text = dialect.read(sql)
    refuse_moments(text.nodes, inputs, allowed)
    return proven(text.tree, inputs, rules, unique_key, allowed, functions)


def proven(
    tree: exp.Query,
    inputs: Sequence[Input],
    rules: RuleBook,
    unique_key: Sequence[str],
    allowed: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
) -> Relation:
    """The same of a query that is parsed, and stays as it is."""
    if rules == "keyed":
        keyed = next(source for source in inputs if source.key is not None)
        assert keyed.key is not None
        book = KeyedRules(sorted(keyed.key), inputs)
        relation = Reader(inputs, book, allowed, functions).read(tree)
        book.check(relation, tree)
        return relation
    if rules == "whole":
        refuse_changing(dialect.walked(tree), inputs, allowed, functions)
        return Relation(())
    sums = rules == "sums"
    relation = Reader(inputs, LinearRules(sums), allowed, functions).read(tree)
    if relation.fact is None:
        raise Refused(
            "HW_NOT_LINEAR", "", None, "no row of the result comes from the followed input"
        )
    if sums:
        linear.check_columns(relation, tree, unique_key)
    return relation
