"""What a model's rows depend on besides its SQL, found without Spark."""

from __future__ import annotations

from headwaters.incremental.surroundings import called, definitions

DESCRIBED = {
    "fx.twice": ["Function: spark_catalog.fx.twice", "Create Time: today", "Body: fx.plus(x, x)"],
    "fx.plus": ["Function: spark_catalog.fx.plus", "Owner: ann", "Body: a + b"],
    "local": ["Function: spark_catalog.default.local", "Body: upper(x)"],
    "upper": ["Function: upper", "Usage: upper(str) - …"],
}


def test_names_before_a_bracket_are_calls_but_not_in_texts_and_comments() -> None:
    sql = """
    select FX.Twice (id), `fx`.plus(1, 2), 'fx.text(1)', "fx.double(1)", t.a, -- fx.gone(1)
        sum(case when t.x in (1, 2) then 1 end) /* fx.gone(2) */
    from t
    """
    assert called(sql) == ["`fx`.plus", "fx.twice", "in", "sum"]


def test_functions_of_a_persons_own_are_recorded_with_those_that_they_call() -> None:
    sql = "select fx.twice(id), local(name), upper(name), missing.one(x) from t"
    found = definitions(sql, ["spark_catalog.default.local"], lambda n: DESCRIBED.get(n, []))
    assert found == {
        "fx.plus": "Function: spark_catalog.fx.plus\nBody: a + b",
        "fx.twice": "Function: spark_catalog.fx.twice\nBody: fx.plus(x, x)",
        "local": "Function: spark_catalog.default.local\nBody: upper(x)",
    }
