"""Write docs/dbt-tests.md from the record of the last runs.

`make dbt-tests` runs the tests and writes both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).parent / "record.json"
PAGE = ROOT / "docs" / "dbt-tests.md"
RESULTS = ("passed", "failed", "not applicable", "not run")

LINK = "[`dbt-tests-adapter`](https://github.com/dbt-labs/dbt-adapters)"
INTRODUCTION = f"""\
# dbt's own tests

For users of other adapters: the tests of dbt that headwaters passes, and those that it does not.

dbt Labs publishes the tests that it expects an adapter to pass, {LINK}.
headwaters runs the classes of the folders below, on Delta tables, through an engine.
`tests/adapter` translates their SQL and types, which are PostgreSQL's.
A class with incremental models runs twice.
The first run has the strategy that the model names, or `merge` if it names none.
The second run, `…WithAuto`, has `incremental_strategy: auto` as the default of the project.

`make dbt-tests` runs them and writes this page.
Those that have passed must pass again: a few in `make test`, all in `make test-slow`.
"""

Record = Mapping[str, Mapping[str, str]]


def page(record: Record) -> str:
    """Return the page of a record."""
    counts: dict[str, Counter[str]] = {}
    for name, test in record.items():
        counts.setdefault(_folder(name), Counter())[test["result"]] += 1
    total = sum(counts.values(), Counter())
    apply = total["passed"] + total["failed"]
    share = f"{100 * total['passed'] / apply:.1f} %" if apply else "none"
    rows = [_row(folder, counts[folder]) for folder in sorted(counts)]
    header = [f"| folder | {' | '.join(RESULTS)} |", "|---|" + "--:|" * len(RESULTS)]
    lines = [INTRODUCTION, "## Results", "", *header, *rows, _row("**all**", total), ""]
    lines += [f"Of the {apply} tests that ran and apply, {share} passed.", ""]
    for title, result in (("Failed", "failed"), ("Not applicable", "not applicable")):
        if total[result]:
            lines += [f"## {title}", "", *_table(record, result), ""]
    return "\n".join(lines)


def _row(name: str, counts: Counter[str]) -> str:
    cells = [str(counts[result] or "") for result in RESULTS]
    return f"| {name} | {' | '.join(cells)} |"


def _table(record: Record, result: str) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for name, one in record.items():
        if one["result"] == result:
            reason = " ".join(one["reason"].split()).replace("|", "\\|")
            test = name.partition("::")[2].replace("::", ".")
            found.setdefault((_folder(name), reason), []).append(f"`{test}`")
    rows = [f"| {folder} | {', '.join(t)} | {why} |" for (folder, why), t in found.items()]
    return ["| folder | tests | reason |", "|---|---|---|", *rows]


def _folder(name: str) -> str:
    return name.partition("::")[0]


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RECORD.read_text())))
