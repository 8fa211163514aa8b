"""What may happen to the inputs between two runs, as Hypothesis strategies of SQL statements.

The values are few, so that keys meet often. `items.id`, `marks.id`, `people.grp` and `rates.grp`
stay unique, as the models promise; rows of `events` repeat. `{newest-N}` stands for the version N
before the newest of the table that the statement names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from incremental.world import World

IDS = st.sampled_from([1, 2, 3, 4, 5, None])
GROUPS = st.sampled_from(["a", "b", "it's", "", "null", None])
VALUES = st.sampled_from([None, -5, 1, 10, 20, 21, 30, 60])
MOMENTS = st.sampled_from([None, -1, 0, 1, 2, 3])
NOTES = st.sampled_from(["x", "y", None])
RATES = st.sampled_from([None, 0.5, 1.5])
TAGS = st.sampled_from(["a", "", "it's", "${x}", "\u00e9", "\U0001f600", b"\xffA", b"\x80", None])
CODES = st.sampled_from([b"\xffA", b"", b"\x00", b"abc", None])
# 01:30, 01:30 again, 01:30 a day before and years before zones were, where the zone is New York's
MARKED = st.sampled_from(
    [1793511000000000, 1793514600000000, 1793424600000000, -5364662399876544, None]
)

ITEM = st.tuples(IDS, GROUPS, VALUES)
EVENT = st.tuples(IDS, MOMENTS, VALUES, NOTES)
FEED_ON = "tblproperties ('delta.enableChangeDataFeed' = 'true')"

Statements = st.SearchStrategy[str]


class Sql(str):
    """An expression, as it stands."""


def as_text(value: str | bytes | None) -> Sql:
    """A string of any bytes, as SQL."""
    if isinstance(value, str):
        value = value.encode()
    return Sql("null" if value is None else f"cast({literal(value)} as string)")


def as_moment(micros: int | None) -> Sql:
    """A timestamp, as SQL."""
    return Sql("null" if micros is None else f"timestamp_micros({micros})")


def literal(value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return "null"
    if isinstance(value, Sql):
        return str(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return str(value)


def values(rows: Iterable[tuple[Any, ...]]) -> str:
    """Rows as SQL: `values (1, 'a'), (2, null)`."""
    return "values " + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def keyed(table: str, row: st.SearchStrategy[Any], columns: str) -> list[Statements]:
    """Upserts, appends of new keys and deletes for a table whose first column is its key."""
    names = columns.split(", ")
    key = names[0]
    updates = ", ".join(f"t.{name} = s.{name}" for name in names[1:])
    inserted = ", ".join(f"s.{name}" for name in names)
    batches = st.lists(row, min_size=1, max_size=3, unique_by=lambda found: found[0])
    return [
        batches.map(
            lambda rows: (
                f"merge into {{inputs}}.{table} as t using (select * from {values(rows)}"
                f" as s ({columns})) as s on t.{key} <=> s.{key}"
                f" when matched then update set {updates}"
                f" when not matched then insert ({columns}) values ({inserted})"
            )
        ),
        batches.map(
            lambda rows: (
                f"insert into {{inputs}}.{table} ({columns}) select s.* from {values(rows)}"
                f" as s ({columns}) left anti join {{inputs}}.{table} as t on t.{key} <=> s.{key}"
            )
        ),
        row.map(
            lambda found: f"delete from {{inputs}}.{table} where {key} <=> {literal(found[0])}"
        ),
    ]


def any_table(table: str, key: str, column: str) -> list[Statements]:
    """What may happen to every table: commits without a change, and whole tables at once."""
    name = f"{{inputs}}.{table}"
    return [
        st.sampled_from(
            [
                f"update {name} set {column} = {column}",
                f"insert into {name} select * from {name} where false",
                f"optimize {name}",
                f"delete from {name} where {column} is null",
            ]
        ),
        st.integers(0, 4).map(
            lambda back: f"restore table {name} to version as of {{newest-{back}}}"
        ),
        st.sampled_from(
            [
                f"create or replace table {name} using delta {FEED_ON} as select * from {name}"
                f" where not {key} <=> 1",
                f"create or replace table {name} using delta {FEED_ON} as select * from {name}",
                f"delete from {name}",
            ]
        ),
    ]


ITEMS: list[Statements] = [
    *(keyed("items", ITEM, "id, grp, val") * 2),
    *any_table("items", "id", "val"),
    # keys that move, without a clash
    st.tuples(IDS, IDS).map(
        lambda pair: (
            f"update {{inputs}}.items set id = case when id <=> {literal(pair[0])}"
            f" then {literal(pair[1])} else {literal(pair[0])} end"
            f" where id <=> {literal(pair[0])} or id <=> {literal(pair[1])}"
        )
    ),
    st.tuples(IDS, GROUPS).map(
        lambda pair: (
            f"update {{inputs}}.items set grp = {literal(pair[1])} where id <=> {literal(pair[0])}"
        )
    ),
    # a key deleted and inserted again in one commit
    st.tuples(st.sampled_from([1, 2, 3]), VALUES).map(
        lambda pair: (
            f"insert into {{inputs}}.items replace where id = {pair[0]}"
            f" select * except (val), {literal(pair[1])} as val from {{inputs}}.items"
            f" where id = {pair[0]}"
        )
    ),
    st.just("alter table {inputs}.items add columns ({new} int)"),
]

EVENTS: list[Statements] = [
    *[
        st.lists(EVENT, min_size=1, max_size=3).map(
            lambda rows: f"insert into {{inputs}}.events {values(rows)}"
        )
    ]
    * 6,
    *any_table("events", "id", "val"),
    IDS.map(lambda id: f"delete from {{inputs}}.events where id <=> {literal(id)}"),
    st.tuples(IDS, MOMENTS).map(
        lambda pair: (
            f"delete from {{inputs}}.events where id <=> {literal(pair[0])}"
            f" and moment <=> {literal(pair[1])}"
        )
    ),
    st.tuples(IDS, VALUES).map(
        lambda pair: (
            f"update {{inputs}}.events set val = {literal(pair[1])} where id <=> {literal(pair[0])}"
        )
    ),
]

PEOPLE: list[Statements] = keyed("people", st.tuples(GROUPS, NOTES), "grp, name")
MARKS: list[Statements] = [
    *keyed(
        "marks",
        st.tuples(IDS, TAGS.map(as_text), CODES, MARKED.map(as_moment), VALUES),
        "id, tag, code, moment, val",
    ),
    *any_table("marks", "id", "val"),
    # Delta does not find a string that is not UTF-8 by its value
    TAGS.map(
        lambda tag: (
            f"update {{inputs}}.marks set val = val + 1 where hex(tag) <=> hex({as_text(tag)})"
        )
    ),
    CODES.map(lambda code: f"delete from {{inputs}}.marks where code <=> {literal(code)}"),
    MARKED.map(
        lambda at: f"update {{inputs}}.marks set val = val + 1 where moment <=> {as_moment(at)}"
    ),
]
RATE: list[Statements] = keyed("rates", st.tuples(GROUPS, RATES), "grp, rate")

# A person may also take a model's table back to what it was.
TARGETS: list[Statements] = [
    st.tuples(
        st.sampled_from(["linear", "latest", "totals", "sums", "chained_sums"]), st.integers(0, 3)
    ).map(lambda pair: f"restore table {{schema}}.{pair[0]} to version as of {{newest-{pair[1]}}}")
]

STATEMENTS: Statements = st.one_of(
    *(ITEMS * 3),
    *(EVENTS * 3),
    *(PEOPLE * 2),
    *MARKS,
    *(any_table("people", "grp", "name")),
    *RATE,
    *TARGETS,
)


def histories(rounds: int) -> st.SearchStrategy[list[list[str]]]:
    """Some rounds of statements; dbt runs after each."""
    return st.lists(st.lists(STATEMENTS, min_size=1, max_size=5), min_size=rounds, max_size=rounds)


def drawn(number: int, rounds: int) -> list[list[str]]:
    """The history of a seed. Hypothesis tries the simplest of all first: it is not the one."""
    found: list[list[list[str]]] = []

    @seed(number)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(histories(rounds))
    def draw(history: list[list[str]]) -> None:
        found.append(history)

    draw()
    return found[-1]


def follow(world: World, history: list[list[str]], models: Iterable[str] = ()) -> None:
    """Change the inputs, run dbt and compare the tables, round by round.

    `models` chooses a few in place of all; those that they read run as well.
    """
    selection = ("--select", *(f"+{name}" for name in models)) if models else ()
    for statements in history:
        for statement in statements:
            world.change(statement)
        ran = world.answers(world.run(*selection))
        world.check(*(ran if models else ()))
