"""The proof that a strategy can maintain a model's SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwaters.analysis import dialect, linear_rules
from headwaters.analysis.determinism import refuse_changing
from headwaters.analysis.keyed_rules import KeyedRules
from headwaters.analysis.linear_rules import LinearRules
from headwaters.analysis.moments import refuse_moments
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input, Relation
from headwaters.analysis.scopes import is_several_rows
from headwaters.analysis.strategies import RuleBook
from headwaters.platform.sql import identifier

_OF_ONE_ROW = "Compute it from the sums of one row, or in a model of its own"


def prove(
    sql: str,
    inputs: Sequence[Input],
    rules: RuleBook,
    unique_key: Sequence[str],
    allowed: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
) -> Relation[object]:
    """Return the relation of the query if the rules of its strategy prove it. Raises Refused.

    `sql` refers to the inputs by their `name`. `allowed` are the functions of
    `allow_nondeterministic`. `functions` are user-defined SQL functions, as expressions over their
    parameters.
    """
    text = dialect.read(sql)
    refuse_moments(text.nodes, inputs, allowed)
    return proven(text.tree, inputs, rules, unique_key, allowed, functions)


def prove_derived(
    derived: Mapping[str, str],
    sums: Relation[object],
    allowed: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
) -> None:
    """Refuse derived expressions that depend on more than the sums of their row. Raises Refused.

    An incremental run computes them only for rows whose sums have changed.
    """
    columns = {column.name: column.type or "" for column in sums.columns}
    rows = Input("hw_sums", "hw_sums", "changes", columns)
    listed = "".join(f", {text} as {identifier(name)}" for name, text in derived.items())
    try:
        text = dialect.read(f"select *{listed} from hw_sums")
        if [found.alias for found in text.tree.selects[1:]] != list(derived):
            raise Refused("HW_NOT_UNDERSTOOD", "", None, "it is more than an expression")
        for made in text.tree.selects:
            if is_several_rows(made, of_groups=False):
                raise dialect.refused(made, "HW_NOT_A_SUM", "it makes several rows of one")
        refuse_moments(text.nodes, [rows], allowed)
        proven(text.tree, [rows], "linear", (), allowed, functions)
    except Refused as refused:
        clause, _ = refused.place
        remedy = "" if refused.is_unstable else _OF_ONE_ROW
        raise Refused(refused.code, f"derived: {clause}", None, refused.reason, remedy) from None


def proven(
    tree: exp.Query,
    inputs: Sequence[Input],
    rules: RuleBook,
    unique_key: Sequence[str],
    allowed: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
    follows_ties: bool = False,
) -> Relation[object]:
    """Prove a parsed query, which stays unchanged. Raises Refused.

    With `follows_ties`, rows of one key may tie: a run that computes the key chooses among them.
    """
    if rules == "keyed":
        keyed = next(source for source in inputs if source.key is not None)
        assert keyed.key is not None
        book = KeyedRules(sorted(keyed.key), inputs, follows_ties)
        local = Reader(inputs, book, allowed, functions).read(tree)
        book.check(local, tree)
        return local
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
        linear_rules.check_columns(relation, tree, unique_key)
    return relation
