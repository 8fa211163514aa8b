"""Share the parts of benchmarks: recording, process clocks, and the document with the ratios."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from types import TracebackType
from typing import Any
from unittest import mock
from urllib.parse import urlparse

from headwaters.devkit import engine
from headwaters.platform.json_lines import lines
from headwaters.platform.project import Project

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Result:
    """A line of `results/<bench>.jsonl`; None for a key that does not apply.

    `rows` counts the rows in scope, and `share` is the part of them that changed. `bytes_written`
    counts the data files' bytes, and `rows_written` the rows in them, copied ones included.
    `statements` counts the SQL statements sent to Spark. `memory` counts the used bytes of Java's
    heap.
    """

    bench: str
    case: str
    variant: str
    rows: int | None
    share: float | None
    wall_s: float
    cpu_s: float | None
    bytes_written: int | None
    statements: int | None
    memory: int | None = None
    rows_written: int | None = None


class Bench:
    """A benchmark while it runs: its work folder, and its results, which replace earlier ones."""

    def __init__(self, name: str, path: Path, work: Path) -> None:
        self.name, self.path, self.work = name, path, work
        self.results: list[Result] = []

    def __enter__(self) -> Bench:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        if error is None and not self.results:
            return  # what it needs is not here
        # measurements before a failure are worth keeping, but they are not the result
        path = self.path if error is None else self.path.with_suffix(".partial.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        written = [json.dumps(asdict(result)) for result in self.results]
        path.write_text("".join(f"{line}\n" for line in written))

    def record(
        self,
        case: str,
        variant: str,
        wall_s: float,
        cpu_s: float | None = None,
        *,
        rows: int | None = None,
        share: float | None = None,
        bytes_written: int | None = None,
        rows_written: int | None = None,
        statements: int | None = None,
        memory: int | None = None,
    ) -> None:
        """Keep one measurement, and print it."""
        wall_s, cpu_s = round(wall_s, 3), None if cpu_s is None else round(cpu_s, 3)
        self.results.append(
            Result(
                self.name,
                case,
                variant,
                rows,
                share,
                wall_s,
                cpu_s,
                bytes_written,
                statements,
                memory,
                rows_written,
            )
        )
        cpu = "" if cpu_s is None else f", {cpu_s:.1f} s CPU"
        print(f"{case} · {variant}: {wall_s:.1f} s{cpu}", flush=True)


@dataclass(frozen=True)
class Clock:
    """The duration of some work: wall-clock seconds, and CPU seconds of all its processes."""

    wall: float
    cpu: float


def median(work: Callable[[], Clock], times: int = 3) -> Clock:
    """Return the medians of several measurements of the same work."""
    clocks = [work() for _ in range(times)]
    return Clock(
        statistics.median(clock.wall for clock in clocks),
        statistics.median(clock.cpu for clock in clocks),
    )


def clock(work: Callable[[], Any], pids: Sequence[int] = ()) -> Clock:
    """Time work in this process; `pids` are other processes whose CPU time counts too (a JVM)."""
    before, start = cpu_of(os.getpid(), *pids), time.monotonic()
    work()
    return Clock(time.monotonic() - start, cpu_of(os.getpid(), *pids) - before)


def clock_process(
    command: Sequence[str],
    cwd: Path,
    variables: dict[str, str],
    pids: Sequence[int] = (),
    sessions: Sequence[int] = (),
    words: bytes | None = None,
) -> Clock:
    """Time a command with all its children; raise if it fails. Linux only: it reads /proc.

    No process waits for a JVM, which is a grandchild, so its CPU time is read while it lives. The
    CPU time of `pids` counts, too, and that of the processes in `sessions`, such as a worker with
    its executors. `words` are the standard input.
    """
    before, start = cpu_of(*pids), time.monotonic()
    served = {pid: cpu_of(pid) for session in sessions for pid in _session(session)}
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin
    process.stdin.write(words or b"")
    process.stdin.close()
    seen: dict[int, float] = dict(served)
    while process.poll() is None:
        for pid in [pid for one in (process.pid, *sessions) for pid in _session(one)]:
            seen[pid] = max(seen.get(pid, 0.0), cpu_of(pid))
        time.sleep(0.05)
    wall = time.monotonic() - start
    output = process.stdout.read().decode(errors="replace") if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output}")
    return Clock(wall, sum(seen.values()) - sum(served.values()) + cpu_of(*pids) - before)


def descendants(pid: int) -> list[int]:
    """Return the processes below a process; Spark's JVM is one of them."""
    parents = {child: int(fields[1]) for child, fields in _processes().items()}
    found: list[int] = []
    fresh = [pid]
    while fresh:
        fresh = [child for child, parent in parents.items() if parent in fresh]
        found += fresh
    return found


@contextmanager
def shared_engine(
    bench: Bench, memory: str, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[Any, int]]:
    """Start an engine on the benchmark's lake; yield a session on it, and its process id.

    dbt in this process finds it with `--target engine`. `memory` is the heap's size, such as 4g;
    HEADWATERS_DRIVER_MEMORY overrides it.
    """
    os.environ["HEADWATERS_LAKE"] = str(bench.work / "lake")
    os.environ["HEADWATERS_SCHEMA"] = "main"
    os.environ.setdefault("HEADWATERS_DRIVER_MEMORY", memory)
    served = engine.start(Project(ROOT), port=0, settings=settings or {})
    os.environ["HEADWATERS_ENGINE"] = served.remote
    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(served.remote).getOrCreate()
        yield spark, served.pid
        spark.stop()
    finally:
        engine.stop(Project(ROOT))
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # a session sets it for all later ones


def dbt_project(folder: Path, files: dict[str, str]) -> list[str]:
    """Make a dbt project of these files and this project's macros; return dbt's options for it."""
    folder.mkdir(parents=True)
    (folder / "project_macros").symlink_to(ROOT / "project_macros")
    shutil.copy(ROOT / "dbt_project.yml", folder / "dbt_project.yml")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folders = ["--project-dir", str(folder), "--profiles-dir", str(ROOT / "profiles")]
    return ["--target", "engine", *folders]


def bytes_below(folder: Path) -> int:
    """Return the bytes of the Parquet files below a folder: a table's data, without its log."""
    files = (path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)
    return sum(path.stat().st_size for path in files)


def files_of(spark: Any, table: str) -> dict[Path, int]:
    """Return the sizes of all files in a table's folder but its log, by path."""
    if not spark.catalog.tableExists(table):
        return {}
    folder = Path(urlparse(spark.sql(f"describe detail {table}").first()["location"]).path)
    return {
        file: file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and "_delta_log" not in file.parts and not file.name.startswith(".")
    }


class DbtRuns:
    """A runner of `dbt run` in this process against the engine, which parses each project once."""

    def __init__(self) -> None:
        self._manifests: dict[tuple[str, ...], Any] = {}

    def __call__(self, options: Sequence[str], *arguments: str) -> list[Any]:
        """Run dbt and return the models' results; `options` are the project's and its `--vars`."""
        from dbt.cli.main import dbtRunner

        key = tuple(options)
        if key not in self._manifests:
            self._manifests[key] = dbtRunner().invoke(["--quiet", "parse", *options]).result
        outcome = dbtRunner(manifest=self._manifests[key]).invoke(
            ["--quiet", "run", *arguments, *options]
        )
        assert outcome.success, outcome.exception
        results: Any = outcome.result
        return [done for done in results.results if done.node.resource_type == "model"]


@contextmanager
def statements_of_dbt() -> Iterator[list[str]]:
    """Yield a list of every statement that dbt sends to Spark for a model."""
    seen: list[str] = []

    def note(node: Mapping[str, Any], sql: str) -> None:
        if node.get("resource_type") == "model":
            seen.append(sql)

    with before_each_statement(note):
        yield seen


@contextmanager
def before_each_statement(note: Callable[[Mapping[str, Any], str], None]) -> Iterator[None]:
    """Call `note` with dbt's info of the node and the SQL before each statement to Spark.

    If it raises, the statement fails with that error.
    """
    from dbt.adapters.headwaters.connections import HeadwatersConnectionManager
    from dbt.adapters.spark.connections import SparkConnectionManager
    from dbt_common.events.contextvars import get_node_info

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(manager: Any, sql: str, *arguments: Any, **options: Any) -> Any:
            note(get_node_info(), sql)
            return run(manager, sql, *arguments, **options)

        return noted

    with (
        mock.patch.object(
            SparkConnectionManager, "execute", noting(SparkConnectionManager.execute)
        ),
        mock.patch.object(
            HeadwatersConnectionManager,
            "client_rows",
            noting(HeadwatersConnectionManager.client_rows),
        ),
    ):
        yield


def _processes() -> dict[int, list[str]]:
    """Return `{pid: fields}`: /proc/<pid>/stat after the name (state, parent, group, …)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
    return found


def _session(leader: int) -> list[int]:
    return [pid for pid, fields in _processes().items() if int(fields[3]) == leader]


def cpu_of(*pids: int) -> float:
    """Return the CPU seconds of processes that still run."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


# -- the document --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Headline:
    """A line of the document's first table: the CPU of a case beside that of its first variant.

    `settings`: the environment variables that the command needs.
    """

    work: str
    instead_of: str
    case: str
    goal: float
    variant: str = "headwaters"
    settings: str = ""


@dataclass(frozen=True)
class Section:
    """The parts of a benchmark in the document besides its table.

    `summary`: a function that computes a paragraph from the results, or None.
    """

    title: str
    notes: str
    summary: Callable[[list[Result]], str] | None = None
    headlines: Sequence[Headline] = ()


def results_of(path: Path) -> list[Result]:
    """Return the lines of `results/<bench>.jsonl`; none before the first run."""
    return [Result(**json.loads(line)) for line in lines(path)] if path.is_file() else []


def write_document(path: Path, results: Path, sections: dict[str, Section]) -> None:
    """Write the tables of ratios: each variant against the first of its case.

    `sections` are those of the benchmarks, by name.
    """
    text = [
        "# Benchmarks",
        "",
        "For users who plan capacity and for contributors: the costs of headwaters next to those",
        "of other ways. Written by `make bench`; do not edit.",
        "",
        "Headwaters does the work of the first column. Its CPU time is given as a part of what the",
        "work of the second column takes, which leaves the same tables: 0.40 means 40 %.",
        "",
        *_first_table(results, sections),
        "",
        f"The machine: {machine()}.",
        "",
        "Seconds depend on the machine, so the tables below have ratios: the first variant of each",
        "case is 1, and less is better. Rows and statements are counts. The measurements are in",
        "`benchmarks/results`.",
    ]
    for name, section in sections.items():
        found = results_of(results / f"{name}.jsonl")
        if found:
            text += ["", f"## {section.title}", "", *_table(found)]
            summary = section.summary(found) if section.summary else ""
            text += ["", *wrap(summary, 100)] if summary else []
            text += ["", section.notes.strip()] if section.notes else []
    path.write_text("\n".join(text) + "\n")


def _first_table(results: Path, sections: dict[str, Section]) -> list[str]:
    """Return the table that a stranger understands: work, CPU, goal, and the command."""
    table = [
        "| work | instead of | CPU | goal | command |",
        "|---|---|--:|--:|---|",
    ]
    for name, section in sections.items():
        found = results_of(results / f"{name}.jsonl")
        for line in section.headlines:
            took = [one for one in found if one.case == line.case]
            ours = [one for one in took if one.variant == line.variant]
            if ours:
                ratio = _ratio(ours[0].cpu_s, took[0].cpu_s)
                command = f"{line.settings} make bench-{name.replace('_', '-')}".strip()
                table.append(
                    f"| {line.work} | {line.instead_of} | {ratio} | {line.goal:.2f} | `{command}` |"
                )
    return table


def machine() -> str:
    """Return the machine's size in words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {memory:.0f} GB of memory, {platform.system()} {platform.machine()}"


def _table(found: list[Result]) -> list[str]:
    """Return the table of one benchmark, without unmeasured columns."""
    base: dict[str, Result] = {}
    rows: list[dict[str, str]] = []
    cases = list(dict.fromkeys(result.case for result in found))
    for result in sorted(found, key=lambda result: cases.index(result.case)):
        first = base.setdefault(result.case, result)
        rows.append(
            {
                "case": result.case if first is result else "",
                "variant": result.variant,
                "rows": _number(result.rows),
                "changed": "" if result.share is None else f"{result.share:.2%}",
                "wall": _ratio(result.wall_s, first.wall_s),
                "CPU": _ratio(result.cpu_s, first.cpu_s),
                "bytes written": _ratio(result.bytes_written, first.bytes_written),
                "rows written": _number(result.rows_written),
                "statements": _number(result.statements),
                "memory": _ratio(result.memory, first.memory),
            }
        )
    heads = [head for head in rows[0] if any(row[head] for row in rows)]
    sides = ["---" if head in ("case", "variant") else "--:" for head in heads]
    cells = [heads, *([row[head] for head in heads] for row in rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in cells]
    return [head, f"|{'|'.join(sides)}|", *body]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _ratio(value: float | None, base: float | None) -> str:
    return "" if value is None or not base else f"{value / base:.2f}"
