"""Compare the engine's statements with reviewed text, and count them.

If a change of the engine is intended, rewrite the texts and review them with the change:
`UPDATE_COMPILED=1 pytest tests/python/incremental/test_compiled.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headwaters.runs import histories
from incremental.world import World

COMPILED = Path(__file__).parent / "compiled"

REVIEWED = ["linear", "computed_key", "latest", "totals", "named", "sums"]

CHANGES = [
    "update {inputs}.items set val = 12 where id = 1",
    "delete from {inputs}.items where id = 3",
    "insert into {inputs}.items values (9, 'c', 1)",
    "insert into {inputs}.events values (1, 3, 1, 'x'), (7, 1, 1, null)",
    "update {inputs}.people set name = 'Bea' where grp = 'b'",
]


def as_fixture(statements: list[str]) -> str:
    """Return statements as one text, without the parts that differ between runs."""
    text = ";\n\n".join(re.sub(r"\n\s*\n", "\n", sql.strip()) for sql in statements) + ";\n"
    text = re.sub(r'("at": )\d+', r"\g<1>0", text)
    text = re.sub(r'("seen": \{"version": )\d+', r"\g<1>0", text)
    text = re.sub(r" in \(([^()]*)\)", lambda found: f" in ({in_order(found[1])})", text)
    text = re.sub(r"__stage_\w+", "__stage", text)
    return re.sub(r"\b\d{12}_[0-9a-f]{8}\b", "<run>", text)


def in_order(literals: str) -> str:
    """Sort the literals of a list; Spark collects them in any order."""
    return ", ".join(sorted(literals.split(", ")))


def inputs_read(world: World) -> list[str]:
    """Return the inputs that the models of the world read, in order."""
    texts = [(world.folder / "models" / f"{model}.sql").read_text() for model in world.models]
    names = set(re.findall(r"source\('inputs', '(\w+)'\)", " ".join(texts)))
    return sorted(f"{world.inputs}.{name}" for name in names)


def test_statements_are_few_and_as_reviewed(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fresh_world
    # on a busy machine a run may outlast an answer
    monkeypatch.setattr(histories, "SECONDS", 3600.0)
    unchanged = world.run()
    assert set(world.answers(unchanged).values()) == {"no changes"}
    for statement in CHANGES:
        world.change(statement)
    changed = world.run()
    told = {answer.node.name: answer.adapter_response for answer in changed.result.results}
    assert told["linear"].pop("_message").endswith(" of 3 changed input rows")
    assert told["linear"].pop("bytes_written") > 0
    assert told["linear"].pop("seconds") > 0
    assert told["linear"] == {
        "code": "merge",
        "rows_affected": 2,
        "rows_inserted": 1,
        "rows_updated": 1,
        "rows_deleted": 0,
        "input_rows": 3,
    }
    # without the questions that pin the inputs, which serve all models
    own = {
        model: [sql for sql in statements if f"history {world.inputs}." not in sql]
        for model, statements in world.statements.items()
    }
    # small change sets need no statement that stages, inspects or drops them
    many = {model: len(sent) for model, sent in own.items() if len(sent) > 5}
    assert many == {"latest_pruned": 7}
    creates = f"create table {world.schema}."
    staged = {model for model, sent in own.items() if any(sql.startswith(creates) for sql in sent)}
    assert staged == {"latest_pruned"}
    pins = [sql for statements in world.statements.values() for sql in statements]
    pins = [sql for sql in pins if f"history {world.inputs}." in sql]
    assert sorted(pins) == [f"describe history {table} limit 20" for table in inputs_read(world)]
    world.check()

    # the logs of the tables have their state; the first model asks each input for its versions
    unchanged = world.run()
    assert set(world.answers(unchanged).values()) == {"no changes"}
    sent = [sql for statements in world.statements.values() for sql in statements]
    assert sorted(sent) == [f"describe history {table} limit 20" for table in inputs_read(world)]

    for model in REVIEWED:
        got = as_fixture(own[model])
        path = COMPILED / f"{model}.sql"
        if os.environ.get("UPDATE_COMPILED"):
            path.write_text(got)
        assert got == path.read_text(), f"{path.name}: see the head of {Path(__file__).name}"
