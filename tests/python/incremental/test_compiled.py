"""What the engine sends to Spark: reviewed text, and never more statements than said.

When a change of the engine is meant, write the texts anew and review them with the change:
`UPDATE_COMPILED=1 pytest tests/python/incremental/test_compiled.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

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
    """Statements as one text, without what differs from run to run."""
    text = ";\n\n".join(re.sub(r"\n\s*\n", "\n", sql.strip()) for sql in statements) + ";\n"
    text = re.sub(r'("at": )\d+', r"\g<1>0", text)
    text = re.sub(r" in \(([^()]*)\)", lambda found: f" in ({in_order(found[1])})", text)
    text = re.sub(r"__stage_\w+", "__stage", text)
    return re.sub(r"\b\d{12}_[0-9a-f]{8}\b", "<run>", text)


def in_order(literals: str) -> str:
    """The literals of a list; Spark collects them in any order."""
    return ", ".join(sorted(literals.split(", ")))


def test_statements_are_few_and_as_reviewed(fresh_world: World) -> None:
    world = fresh_world
    unchanged = world.run()
    assert set(world.answers(unchanged).values()) == {"no changes"}
    assert {model for model, sent in world.statements.items() if len(sent) > 4} == set()

    for statement in CHANGES:
        world.change(statement)
    changed = world.run()
    told = {answer.node.name: answer.adapter_response for answer in changed.result.results}
    assert told["linear"].pop("_message").endswith(" of 3 changed input rows")
    assert told["linear"].pop("bytes_written") > 0
    assert told["linear"] == {
        "code": "merge",
        "rows_affected": 2,
        "rows_inserted": 1,
        "rows_updated": 1,
        "rows_deleted": 0,
        "input_rows": 3,
    }
    # a lookup costs one more, to pin it; a further input that changed a second, for its commits;
    # rows that are deleted by their hash another, to count them
    most = {"linear": 13, "people_totals": 14, "named": 15, "computed_key": 13, "totals": 13}
    sent = {model: len(statements) for model, statements in world.statements.items()}
    assert {model: n for model, n in sent.items() if n > most.get(model, 12)} == {}
    world.check()

    for model in REVIEWED:
        got = as_fixture(world.statements[model])
        path = COMPILED / f"{model}.sql"
        if os.environ.get("UPDATE_COMPILED"):
            path.write_text(got)
        assert got == path.read_text(), f"{path.name}: see the head of {Path(__file__).name}"
