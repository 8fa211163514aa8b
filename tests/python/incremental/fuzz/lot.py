"""Run many histories in one dbt project, and compare every table after every run.

A round is a step of every history and one `dbt run` of all of their models. A table has the
columns, types and rows of its SQL over the present inputs. Otherwise its run ended with one
HW_ line and left the table unchanged, and `--full-refresh` heals it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from headwaters.runs import bounds
from headwaters.runs import decisions as plan
from incremental.fuzz.history import INPUTS, Change, History, Model, in_place, relations
from incremental.world import ROOT, dbt_environment, noted_statements

# The rows of an input do not show its past, so no plain SQL gives the periods of a history model. A
# twin of each is fully refreshed by every run.
TWIN = "x"
# Before each run: nothing; a dbt process killed by SIGKILL; two dbt processes at once.
HOW = ("alone", "killed", "paired")
CHUNK = 2  # tables that are compared in one statement, whose every task reads the plan of all
PROJECT = """
name: fuzz
version: 0.1.0
profile: headwaters
vars: {{headwaters_hooks: true}}
flags: {{send_anonymous_usage_stats: false}}
models:
  fuzz:
    +materialized: incremental
    +file_format: delta
    +whole_below: {whole_below}
    +tblproperties: {{delta.enableChangeDataFeed: "true"}}
"""

Rows = Counter[str]


@dataclass(frozen=True)
class Failure:
    """A table that differs from its full refresh, or a run that crashed."""

    round: int
    model: str
    kind: str  # wrong, columns, crash, accepted, changed or not healed
    text: str


@dataclass(frozen=True)
class Query:
    """A query, its columns, and the partition columns of a table with its rows."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    partition_columns: tuple[str, ...]

    def shown(self) -> str:
        """Return the select list of the values to compare.

        Text that is not UTF-8 is shown as digits. Delta stores an empty text of a partition column
        as NULL.
        """
        shown = []
        for name, type_ in self.columns:
            column = f"`{name}`"
            if type_ == "string":
                column = f"if(is_valid_utf8(`{name}`), `{name}`, concat('x', hex(`{name}`)))"
                if name in self.partition_columns:
                    column = f"nullif({column}, '')"
            shown.append(f"{column} as `{name}`")
        return ", ".join(shown)


@dataclass
class Course:
    """The outcome of a history."""

    history: History
    failure: Failure | None = None
    answers: list[str] = field(default_factory=list)  # the first words of each model's run
    refused: list[str] = field(default_factory=list)  # statements and runs that were refused
    models: dict[str, Model] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)  # of tables that only runs wrote since


class Lot:
    """Histories by their prefixes, in one dbt project."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        histories: Mapping[str, History],
        stored: bool = False,
        how: str = "alone",
        said: Callable[[str], None] = lambda text: None,
        whole_below: int = 0,
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.stored = stored  # store keys and feeds of few rows as those of many
        self.courses = {prefix: Course(history) for prefix, history in histories.items()}
        self.schema = "fuzz"
        self.round = 0
        self.seconds: Counter[str] = Counter()
        self.whole_below = whole_below
        self.how = how  # the disturbance before a run: see HOW
        self.said = said
        self.met = 0  # dbt processes that still ran when they were killed, or that gave way
        self.runs = 0
        self._longest = 0.0  # seconds of a run
        self._manifest: Any = None

    def play(self) -> dict[str, Course]:
        """Play all histories to their ends, or to their first failures."""
        with self._settings():
            self._set_up()
            self._run(dict.fromkeys(self.courses), ())
            self.said(f"round 0: {dict(self.seconds)} {self.runs} runs")
            for number in range(max(len(c.history.steps) for c in self.courses.values())):
                self.round = number + 1
                self._play_round(number)
                self.said(f"round {self.round}: {dict(self.seconds)} {self.runs} runs")
        return self.courses

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Let VACUUM delete recent files, and store keys and feeds as for many rows."""
        check = "spark.databricks.delta.retentionDurationCheck.enabled"
        self.spark.conf.set(check, "false")
        try:
            if not self.stored:
                yield
                return
            with (
                mock.patch.object(plan, "ROWS_WORTH_STORING", 0),
                mock.patch.object(bounds, "MOST_VALUES", 0),
            ):
                yield
        finally:
            self.spark.conf.unset(check)

    def _set_up(self) -> None:
        for schema in (self.schema, f"{self.schema}_inputs"):
            self.spark.sql(f"drop schema if exists {schema} cascade")
            self.spark.sql(f"create schema {schema}")
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "models").mkdir(parents=True)
        (self.folder / "dbt_project.yml").write_text(PROJECT.format(whole_below=self.whole_below))
        names = [f"{prefix}_{name}" for prefix in self.courses for name in INPUTS]
        sources = {"name": "inputs", "schema": f"{self.schema}_inputs"}
        sources["tables"] = [{"name": name} for name in names]  # type: ignore[assignment]
        (self.folder / "models" / "inputs.yml").write_text(yaml.safe_dump({"sources": [sources]}))
        for prefix, course in self.courses.items():
            for model in course.history.models:
                self._edit(prefix, model)
        with self._time("tables"):
            self._change({p: list(c.history.tables) for p, c in self.courses.items()})

    def _play_round(self, number: int) -> None:
        playing = {
            prefix: course.history.steps[number]
            for prefix, course in self.courses.items()
            if course.failure is None and number < len(course.history.steps)
        }
        if not playing:
            return
        with self._time("changes"):
            self._change({prefix: list(step.changes) for prefix, step in playing.items()})
        for prefix, step in playing.items():
            for model in step.edits:
                self._edit(prefix, model)
        self._disturb()
        stops = {prefix: step.stop for prefix, step in playing.items()}
        self._run(stops, () if len(playing) == len(self.courses) else playing)

    def _edit(self, prefix: str, model: Model) -> None:
        course = self.courses[prefix]
        before = course.models.get(model.name)
        course.models[model.name] = model
        file = self.folder / "models" / f"{prefix}_{model.name}.sql"
        if before is None or before.file(prefix) != model.file(prefix):
            file.write_text(model.file(prefix))
            self._manifest = None
            if model.is_history:
                settings = {**model.settings, "full_refresh": True}
                twin = replace(model, name=model.name + TWIN, settings=settings)
                file.with_stem(f"{prefix}_{twin.name}").write_text(twin.file(prefix))

    # Statements

    def _place(self, prefix: str, name: str) -> str:
        schema = f"{self.schema}_inputs" if name in INPUTS else self.schema
        return f"{schema}.{prefix}_{name}"

    def _change(self, changes: Mapping[str, list[Change]]) -> None:
        """Run the statements of all histories, those of each in order."""

        def run(prefix: str) -> None:
            course = self.courses[prefix]
            for change in changes[prefix]:
                try:
                    self._statement(prefix, change)
                except Exception as error:
                    course.refused.append(f"{self.round}: {change}: {_line(error)}")
                for name in relations(change.text):
                    course.rows.pop(name, None)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(run, changes))

    def _statement(self, prefix: str, change: Change) -> None:
        text = str(change)
        place = in_place(text, lambda name: self._place(prefix, name))
        if back := re.search(r"\[newest-(\d+)\]", place):
            first = self._place(prefix, relations(text)[0])
            newest = self.spark.sql(f"describe history {first} limit 1").first()["version"]
            place = place.replace(back[0], str(max(newest - int(back[1]), 0)))
        if place.startswith("spark."):
            eval(place, {"spark": self.spark})
        else:
            self.spark.sql(place).collect()

    # Runs

    def _run(self, stops: Mapping[str, int | None], chosen: Iterable[str]) -> None:
        names = [f"{prefix}_m*" for prefix in chosen]
        answers, stopped = self._dbt(names, stops)
        self._judge(answers, stopped, healing=False)

    def _disturb(self) -> None:
        """Let other dbt processes run over all models, and kill one while it runs."""
        if self.how == "alone":
            return
        for course in self.courses.values():
            course.rows.clear()
        chance = random.Random(f"{self.how} {self.round} {sorted(self.courses)}")
        first = self._process("target_of_the_first")
        if self.how == "killed":
            try:
                first.wait(chance.uniform(0.2, 1) * self._longest)
            except subprocess.TimeoutExpired:
                self.met += 1
                first.kill()
                first.wait()
            return
        time.sleep(chance.uniform(0, 5))
        second = self._process("target_of_the_second")
        self.met += sum(process.wait() != 0 for process in (first, second))

    def _process(self, target: str) -> subprocess.Popen[bytes]:
        """Start dbt in another process."""
        with dbt_environment(self.schema, self.folder):
            return subprocess.Popen(
                [sys.executable, "-m", "dbt.cli.main", "run", *self._options()],
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT / "scripts"),
                    "DBT_TARGET_PATH": str(self.folder / target),
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def _options(self) -> list[str]:
        return [
            *("--log-level", "none", "--log-level-file", "none", "--no-write-json"),
            *("--target", "engine", "--no-use-colors"),
            *("--project-dir", str(self.folder), "--profiles-dir", str(ROOT / "profiles")),
        ]

    def _dbt(
        self, names: Iterable[str], stops: Mapping[str, int | None], *arguments: str
    ) -> tuple[dict[str, tuple[str, str]], set[str]]:
        """Return the status and message of each model, and the models that a stop stopped."""
        from dbt.cli.main import dbtRunner

        selection = [*names]
        selected = ["--select", *selection] if selection else []
        stopped: set[str] = set()

        def stop(model: str, number: int, sql: str) -> bool:
            wanted = stops.get(model.rpartition("_")[0])
            if wanted is not None and number >= wanted:
                stopped.add(model)
                return True
            return False

        messages: list[str] = []

        def listen(event: Any) -> None:
            if event.info.level == "error":
                messages.append(event.info.msg)

        with dbt_environment(self.schema, self.folder):
            if self._manifest is None:
                with self._time("parse"):
                    parsed = dbtRunner().invoke(["parse", *self._options()])
                assert parsed.success, parsed.exception
                self._manifest = parsed.result
            with self._time("run"), noted_statements({}, stop):
                runner = dbtRunner(manifest=self._manifest, callbacks=[listen])
                began = time.monotonic()
                result = runner.invoke(["run", *self._options(), *selected, *arguments])
                self._longest = max(self._longest, time.monotonic() - began)
        if result.exception is not None:
            raise AssertionError(f"dbt: {result.exception}\n" + "\n".join(messages))
        found = {
            answer.node.name: (str(answer.status), str(answer.message))
            for answer in result.result.results  # type: ignore[union-attr]
            if answer.node.resource_type == "model"
        }
        self.runs += len(found)
        return found, stopped

    def _judge(
        self, answers: Mapping[str, tuple[str, str]], stopped: set[str], healing: bool
    ) -> None:
        """Compare the tables of successful runs, and heal those of refused runs."""
        right, refused = [], []
        for name, (status, message) in answers.items():
            prefix, _, model = name.rpartition("_")
            course = self.courses[prefix]
            if course.failure is not None or model not in course.models:
                continue
            word = "stopped" if name in stopped else _action(status, message)
            course.answers.append(f"{self.round} {model} {word}")
            if status == "error" and word != "stopped":
                course.refused.append(f"{self.round}: {model}: {_line(message)}")
            if name in stopped:
                course.rows.pop(model, None)
            elif status == "success":
                twin = answers.get(name + TWIN)
                if twin is None or twin[0] == "success":
                    right.append(name)
            elif status == "error":
                refused.append(name)
        with self._time("compare"):
            self._compare(right)
        if refused:
            self._refused(refused, answers, healing)

    def _refused(
        self, names: list[str], answers: Mapping[str, tuple[str, str]], healing: bool
    ) -> None:
        unchanged = [] if healing else self._are_changed(names)
        again = []
        for name in names:
            prefix, _, model = name.rpartition("_")
            course, message = self.courses[prefix], answers[name][1]
            if course.failure is not None or model not in course.models:
                continue
            error = self._reference_error(prefix, model)
            if name in unchanged:
                self._fail(name, "changed", f"refused, but the rows are others: {message}")
            elif _code(message) is None and error is None and not _is_for_good(message):
                self._fail(name, "crash", message)
            elif healing and error is None and not _is_for_good(message):
                self._fail(name, "not healed", message)
            elif not healing and error is None:
                again.append(name)
        if again:
            healed, stopped = self._dbt([f"{name}+" for name in again], {}, "--full-refresh")
            self._judge(healed, stopped, healing=True)

    def _reference_error(self, prefix: str, model: str) -> str | None:
        """Return the error of a model's plain SQL, if it fails."""
        reference = self._reference(prefix, model)
        if self.courses[prefix].models[model].is_history:
            reference = f"select * from {self._place(prefix, model + TWIN)}"
        try:
            self._rows({model: self._query(reference)})
        except Exception as error:
            return _line(error)
        return None

    def _are_changed(self, names: Iterable[str]) -> list[str]:
        """Return the tables whose rows a refused run changed; a view changes with its inputs."""
        found = []
        for name in names:
            prefix, _, model = name.rpartition("_")
            course = self.courses[prefix]
            before = course.rows.get(model)
            is_view = course.models[model].settings.get("materialized") == "view"
            if before is None or is_view:
                continue
            try:
                table = self._query(f"select * from {self._place(prefix, model)}")
                if self._rows({name: table})[name] != before:
                    found.append(name)
            except Exception:  # the table is missing or unreadable
                found.append(name)
        return found

    # Comparison

    def _reference(self, prefix: str, model: str) -> str:
        models = self.courses[prefix].models

        def relation(name: str) -> str:
            if name in models and models[name].settings.get("materialized") == "ephemeral":
                return f"({self._reference(prefix, name)})"
            return self._place(prefix, name)

        return models[model].rows(relation)

    def _compare(self, names: Iterable[str]) -> None:
        """Compare tables with their plain SQL."""
        with ThreadPoolExecutor(3) as pool:
            pairs = dict(zip(names, pool.map(self._pair, names), strict=True))
        compared = {name: pair for name, pair in pairs.items() if pair is not None}
        chunks = [[*compared][place : place + CHUNK] for place in range(0, len(compared), CHUNK)]

        def compare(chunk: list[str]) -> None:
            sides = {(name, side): compared[name][side] for name in chunk for side in (0, 1)}
            try:
                found = self._rows(sides)
            except Exception as error:
                if len(chunk) == 1:
                    self._fail(chunk[0], "accepted", f"the SQL fails: {_line(error)}")
                    return
                for name in chunk:
                    compare([name])
                return
            for name in chunk:
                self._compare_rows(name, found[name, 0], found[name, 1])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(compare, chunks))

    def _compare_rows(self, name: str, got: Rows, right: Rows) -> None:
        prefix, _, model = name.rpartition("_")
        course = self.courses[prefix]
        course.rows[model] = got
        if got != right:
            many, few = sorted((got - right).elements()), sorted((right - got).elements())
            answer = [text for text in course.answers if f" {model} " in text][-1]
            self._fail(name, "wrong", f"{answer}: too many {many}, missing {few}")

    def _pair(self, name: str) -> tuple[Query, Query] | None:
        """Return the queries of a table and of its plain SQL, if their columns are the same."""
        prefix, _, model = name.rpartition("_")
        definition = self.courses[prefix].models[model]
        if definition.settings.get("materialized") == "ephemeral":
            return None
        reference = self._reference(prefix, model)
        if definition.is_history:
            place, twin = (self._place(prefix, name) for name in (model, model + TWIN))
            if self._begins(place) != self._begins(twin):
                return None  # the full refresh could no longer read the first periods
            reference = f"select * from {twin}"
        try:
            right = self._query(reference, definition.partition_columns)
        except Exception as error:
            self._fail(name, "accepted", f"the SQL fails: {_line(error)}")
            return None
        try:
            table = f"select * from {self._place(prefix, model)}"
            got = self._query(table, definition.partition_columns)
        except Exception as error:
            self._fail(name, "wrong", f"no table: {_line(error)}")
            return None
        if got.columns != right.columns:
            self._fail(name, "columns", f"got {got.columns}, right {right.columns}")
            return None
        return got, right

    def _begins(self, table: str) -> str:
        """Return the version of the input with which a table of periods begins."""
        value = f"show tblproperties {table} ('headwaters.begins')"
        return str(self.spark.sql(value).first()["value"])

    def _query(self, sql: str, partition_columns: Iterable[str] = ()) -> Query:
        fields = self.spark.sql(sql).schema.fields
        columns = tuple((field.name, field.dataType.simpleString()) for field in fields)
        return Query(sql, columns, tuple(partition_columns))

    def _rows(self, queries: Mapping[Any, Query]) -> dict[Any, Rows]:
        """Return the rows of queries, in one statement."""
        names = list(queries)
        parts = [
            f"select {place} as place, to_json(struct({queries[name].shown()}),"
            f" map('ignoreNullFields', 'false')) as row from ({queries[name].sql})"
            for place, name in enumerate(names)
        ]
        found: dict[Any, Rows] = {name: Counter() for name in names}
        for place, row in self.spark.sql(" union all ".join(parts)).collect():
            found[names[place]][_normal(row)] += 1
        return found

    def _fail(self, name: str, kind: str, text: str) -> None:
        prefix, _, model = name.rpartition("_")
        course = self.courses[prefix]
        if course.failure is None:
            course.failure = Failure(self.round, model, kind, text)

    @contextmanager
    def _time(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[what] += round(1000 * (time.monotonic() - began))


def _normal(row: str) -> str:
    """Return a row as text, zeros without their signs."""

    def number(text: str) -> str:
        value = Decimal(text)
        return str(abs(value) if value == 0 else value)

    return json.dumps(json.loads(row, parse_float=number), sort_keys=True)


def _action(status: str, message: str) -> str:
    if status == "error":
        return f"refused {_code(message)}" if _code(message) else "error"
    return re.split(r"[:,]| \d", message)[0] if status == "success" else status


def _line(error: object) -> str:
    lines = [
        line.strip() for line in str(error).strip().splitlines() if " Error in model " not in line
    ]
    return (lines or [""])[0][:300]


# Refusals caused by changes of tables, not by SQL or rows: a full refresh heals them.
_HEALED = ("HW_GAP", "HW_FOREIGN_WRITE", "HW_LOST_PERIODS", "HW_CONCURRENT_RUN", "HW_HIDDEN_TABLE")
_NOT_KEPT = "that Delta cannot keep in a partition column"


def _is_for_good(message: str) -> bool:
    """Return whether a full refresh is refused too, until SQL or rows change."""
    code = _code(message)
    return _NOT_KEPT in message or (code is not None and code not in _HEALED)


def _code(message: str) -> str | None:
    found = re.search(r"HW_[A-Z_]+", message)
    return found[0] if found else None
