"""Test that a printed undo works as it is, typed into a shell: one of each kind."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from headwaters.platform.text import sql_command
from tables.conftest import Orders

ROOT = Path(__file__).resolve().parents[3]


def test_a_command_quotes_its_statements_for_a_shell() -> None:
    statements = ["alter table `a`.`b` unset tblproperties ('x')", 'comment on table `c` is "$d"']
    command = sql_command(statements, "my engine")
    assert shlex.split(command) == [
        *("headwaters", "sql", "--write", "--target", "my engine"),
        "; ".join(statements),
    ]
    assert sql_command(["drop table `a`"]) == "headwaters sql --write 'drop table `a`'"


def type_undo(orders: Orders, printed: str) -> str:
    """Type the command below `undo:`, and agree to each of its statements."""
    command = printed.split("undo:\n  ", 1)[1].splitlines()[0]
    command = re.sub(r"`(bronze|silver|gold)`\.", rf"`{orders.schema}_\1`.", command)
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=orders.folder,
        env={
            **os.environ,
            **orders.variables(),
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "scripts"),
            "DBT_PROFILES_DIR": str(ROOT / "profiles"),
            "DBT_TARGET_PATH": str(orders.folder / "target"),
        },
        input="y\ny\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


@pytest.mark.slow
def test_each_kind_of_undo_is_a_command_that_can_be_typed(orders: Orders) -> None:
    copies = f"show tables in {orders.schema}_gold"
    before = orders.sql(copies)
    backup = orders.operation(
        "backup", table="customer_totals", expires="1 day", reason="audit", dry_run=False
    )
    assert len(orders.sql(copies)) == len(before) + 1
    type_undo(orders, backup)
    assert orders.sql(copies) == before

    delete = orders.operation(
        "delete_where", table="orders", predicate="id = 1", reason="by mistake", dry_run=False
    )
    assert orders.sql("select count(*) from {bronze}") == [(4,)]
    type_undo(orders, delete)
    assert orders.sql("select count(*) from {bronze}") == [(5,)]

    properties = f"show tblproperties {orders.gold}"
    first = dict(orders.sql(properties))
    drop = orders.operation("drop", table="customer_totals", reason="unused", dry_run=False)
    assert orders.gold.split(".")[1] not in [row[1] for row in orders.sql(copies)]
    assert type_undo(orders, drop).count("Run it?") == 2
    assert dict(orders.sql(properties)) == first
