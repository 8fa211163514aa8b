"""Test `headwaters sql`: the decisions without Spark, and one session on the tests' engine."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from headwaters.platform.engine import Engine
from headwaters.platform.errors import CodedError, UserError
from headwaters.platform.project import Project
from headwaters.platform.text import printable
from headwaters.query import printing
from headwaters.query.printing import Form, object_of
from headwaters.query.run import DeclaredTables, QueryOptions, check, not_found, run
from headwaters.query.statements import is_complete, reads, split

ROOT = Path(__file__).resolve().parents[2]


def test_a_text_is_split_at_its_semicolons_alone() -> None:
    text = "select ';' as a; -- one; two\n select 1 /* ; */ ;; select `x;y` from t"
    assert split(text) == [
        "select ';' as a",
        "-- one; two\n select 1 /* ; */",
        "select `x;y` from t",
    ]
    assert split(" ; -- nothing") == []


def test_a_statement_ends_with_a_semicolon_outside_of_quotes_and_comments() -> None:
    complete = ["select 1;", "select 1 ; -- done", "", "-- a comment"]
    assert [text for text in complete if not is_complete(text)] == []
    assert [text for text in ("select 1", "select ';'", "select 1 -- ;") if is_complete(text)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "select * from t where op = 'delete'",
        "-- first\n(select 1) union all select 2",
        "with a as (select 1) select `update` from a",
        "from t |> where x > 1",
        "describe history gold.t",
        "SHOW TABLES IN bronze",
        "explain delete from t",
        "values (1)",
        "table t",
        "set spark.sql.session.timeZone = UTC",
        "-- nothing",
    ],
)
def test_queries_and_descriptions_read(statement: str) -> None:
    assert reads(statement)
    check(statement, write=False)


@pytest.mark.parametrize(
    "statement",
    [
        "restore table t to version as of 1",
        "with a as (select 1) insert into t select * from a",
        "with a as (select 1) merge into t using a on true when matched then delete",
        "from a insert into t select *",
        "/* select */ drop table t",
        "delete from t",
        "optimize t",
        "begin select 1; end",
    ],
)
def test_other_statements_are_refused_without_write(statement: str) -> None:
    assert not reads(statement)
    check(statement, write=True)
    with pytest.raises(UserError, match=r"HW_READ_ONLY.*Add --write"):
        check(statement, write=False)


def test_a_misspelt_query_is_not_taken_for_a_write() -> None:
    with pytest.raises(UserError, match="`delete from t` may write: `headwaters sql` only reads"):
        check("delete from t", write=False)
    with pytest.raises(UserError, match="`selct 1` may write, did you mean 'select'\\? `headw"):
        check("selct 1", write=False)


def test_a_missing_table_is_explained_by_the_declarations() -> None:
    declared = DeclaredTables({"gold.daily": "dbt build --select daily"})

    def explained(name: str) -> str:
        text = f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {name} cannot be found. Verify …"
        return str(not_found(text, declared))

    assert explained("`gold`.`daily`") == (
        "[HW_NO_SUCH_TABLE] gold.daily does not exist yet: `dbt build --select daily` makes it"
    )
    assert explained("`gold`.`dayly`") == (
        "[HW_NO_SUCH_TABLE] there is no table gold.dayly, did you mean 'gold.daily'?"
    )
    assert explained("`x`") == (
        "[HW_NO_SUCH_TABLE] there is no table x: `show tables in <schema>` lists those of one"
    )
    assert not_found("[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'.", declared) is None


STREAM = """
sources:
  - name: raw
    schema: "{{ env_var('HEADWATERS_SCHEMA') }}_raw"
    tables:
      - name: orders
        config: {meta: {stream: {from: files, path: landing/orders, format: json}}}
        columns: [{name: id, data_type: bigint}]
      - name: returns
        config: {meta: {stream: {from: files, path: landing/returns, format: json}}}
        columns: [{name: id, data_type: bigint}]
"""


def test_streams_are_read_before_the_first_dbt_run(
    engine: Engine,
    lake: Path,
    new_project: Callable[..., Path],
    schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HEADWATERS_SCHEMA", schema)
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path))
    rows = {"id": pa.array([1, None]), "record": [b"{\xc3\xbc", b"a,b"]}
    write_deltalake(lake / "warehouse" / f"{schema}_raw.db" / "orders", pa.table(rows))
    project = Project(new_project({"models/bronze/raw.yml": STREAM}), ROOT / "profiles")
    query = f"select id, record, array(id) as ids, 1.50 as x, 2 as x from {schema}_raw.orders"
    forms: list[tuple[Form, list[str]]] = [
        (
            "table",
            [
                "  id  record  ids        x  x",
                "   1  {ü      [1]     1.50  2",
                "null  a,b     [null]  1.50  2",
                "(2 rows)",
            ],
        ),
        ("csv", ["id,record,ids,x,x", "1,{ü,[1],1.50,2", ',"a,b",[null],1.50,2']),
        (
            "json",
            [
                '{"id": 1, "record": "{ü", "ids": [1], "x": "1.50", "x": 2}',
                '{"id": null, "record": "a,b", "ids": [null], "x": "1.50", "x": 2}',
            ],
        ),
    ]
    for form, expected in forms:
        run(project, f"{query} order by record desc;", QueryOptions(form))
        assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected
    run(project, query, QueryOptions(limit=1))
    assert capsys.readouterr().out.splitlines()[-1] == (
        "(1 row; there are more: --limit 0 prints all)"
    )
    run(project, f"create schema {schema}_made", QueryOptions(write=True, yes=True))
    run(project, f"show schemas like '{schema}_made'", QueryOptions("csv"))
    assert capsys.readouterr().out.splitlines()[-1] == f"{schema}_made"
    errors = {
        f"select * from {schema}_raw.returns": r"\[HW_NO_SUCH_TABLE\] .*_raw.returns does not "
        "exist yet: `headwaters ingest --select returns` makes it",
        "select missing from values (1) as t (a)": r"\[HW_SQL\] there is no column "
        "`missing`; the nearest are a ",
        "select 1 +": r"\[HW_SQL\] Syntax error at or near end of input",
    }
    for wrong, error in errors.items():
        with pytest.raises(CodedError, match=error):
            run(project, wrong, QueryOptions())


def table(names: list[str], types: list[str], rows: list[list[str]], width: int = 0) -> list[str]:
    """Return the printed lines of a table, on a terminal of a width or in a pipe."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=bool(width), width=width or None, color_system=None)
    printing._table(names, types, rows, 10, console)
    return out.getvalue().splitlines()


def test_a_terminal_cuts_long_nested_values_and_no_texts() -> None:
    long = "x" * 200
    rows = [["1", f'{{"a": "{long}"}}', long]]
    names, types = ["id", "map", "text"], ["int", "map<string,string>", "string"]
    _, row, end = table(names, types, rows, width=400)
    assert [len(cell) for cell in row.split()] == [1, 5, 95, 200]
    assert "x… " in row and end == "(1 row; --format json prints whole values)"
    _, row, end = table(names, types, rows)
    assert row.split(maxsplit=1)[1] == f'{{"a": "{long}"}}  {long}' and end == "(1 row)"


def test_a_long_value_is_folded_on_a_terminal_and_whole_in_a_pipe() -> None:
    key, long = "delta.enableChangeDataFeed", "word " * 4000 + "end"
    rows = [["headwaters.proof", long], [key, "true"]]
    names, types = ["key", "value"], ["string", "string"]
    lines = table(names, types, rows, width=60)
    assert max(map(len, lines)) <= 60
    assert lines[-2].split() == [key, "true"]  # only the last column is folded
    assert " ".join(" ".join(lines[1:-2]).split()) == f"headwaters.proof {long}"
    assert table(names, types, rows) == [
        f"key{' ' * 25}value",
        f"headwaters.proof{' ' * 12}{long}",
        f"{key}  true",
        "(2 rows)",
    ]
    assert max(map(len, table(names, types, [["k" * 50, long]], width=60))) <= 60


def test_a_row_as_json_keeps_every_digit_and_two_columns_of_one_name() -> None:
    types = ["int", "decimal(28,2)", "string", "array<int>", "double", "boolean", "string"]
    row = ["1", "0.10", 'a "b"', "[1,2]", "NaN", "true", None]
    assert object_of(["a", "b", "c", "d", "e", "f", "a"], types, row) == (
        '{"a": 1, "b": "0.10", "c": "a \\"b\\"", "d": [1,2], "e": "NaN", "f": true, "a": null}'
    )


def test_a_value_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[31m\nü") == "a\\x1b[31m\\x0aü"
