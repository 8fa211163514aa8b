"""Hundreds of histories, stops and kills: `make soak-incremental`.

A trial is its kind and its seed, so `python -m incremental.soak --kind stop --first 17 --count 1`
repeats one. Results are kept in `<lake>/soak-incremental.jsonl`; trials that are there are not run
again, so a soak that was stopped goes on where it was. The engine runs on a lake of its own, in
`<lake>/soak-incremental`. `<lake>/soak-incremental.md` is written at the end, for
docs/soak-incremental.md, which keeps the results of earlier engines.

- `history`  two rounds of random statements, a run of a few models and a comparison after each;
             what is not chosen falls behind, and follows more commits at once when it is
- `stop`     a change; a run of a few models that stops before the n-th statement of each; then the
             inputs go back to where they were, or on; a run and a comparison
- `kill`     ten times a change and a dbt process that meets SIGKILL at a random moment, on models
             of every way to write; then a run and a comparison
- `pair`     three times a change and two dbt processes at once, on the same models, one of which
             starts a random moment later; then a run and a comparison

A trial goes on with the tables that the trial before left; a failure begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from processes import INTERPRETED

from headwaters.devkit import engine as engines
from headwaters.platform.project import Project
from incremental.expected import EXPECTED
from incremental.histories import drawn, follow
from incremental.world import INPUTS, ROOT, World

SCHEMA = "soak"
COUNTS = {"history": 100, "stop": 50, "kill": 10, "pair": 20}
KILLS = 10
FEW = 4  # models that a history chooses, beside those that they read
KILLED = (
    *("linear", "latest_pruned", "people_totals", "sums", "chained_sums", "latest", "marks"),
    # keys that are empty, binary, not UTF-8 or of an hour that comes twice; a partition; a view
    *("tag_latest", "code_sums", "moment_totals", "part_totals", "auto_through_view"),
)


def few(number: int) -> list[str]:
    """The models that a trial chooses."""
    models = [name for name in EXPECTED if name != "tracked_anew"]  # comes with `tracked`
    return sorted(random.Random(number).sample(models, FEW))


def history(world: World, number: int) -> str:
    """Rounds of statements; a run and a comparison after each."""
    chosen = few(number)
    follow(world, drawn(number, 2), chosen)
    return ", ".join(chosen)


def go_back(world: World, chance: random.Random, versions: dict[str, int]) -> None:
    """Half of the time the inputs become what they were at these versions."""
    if chance.random() < 0.5:
        for name, version in versions.items():
            world.change(f"restore table {{inputs}}.{name} to version as of {version}")


def stop(world: World, number: int) -> str:
    """Every chosen model stops before the same statement."""
    chance = random.Random(number)
    chosen = [f"+{name}" for name in few(number)]
    before = {name: world.version(f"{{inputs}}.{name}") for name in INPUTS}
    for statement in drawn(number, 1)[0]:
        world.change(statement)
    last = chance.randint(1, 11)
    world.run("--select", *chosen, stop=lambda model, place, sql: place == last, expect=None)
    how = f"stopped before statement {last}"
    world.story.append(f"({how})")
    go_back(world, chance, before)
    world.check(*world.answers(world.run("--select", *chosen)))
    return how


def kill(world: World, number: int) -> str:
    """dbt processes are killed, one after another, between changes."""
    chance = random.Random(number)
    killed = 0
    for statements in drawn(number, KILLS):
        before = {name: world.version(f"{{inputs}}.{name}") for name in INPUTS}
        for statement in statements:
            world.change(statement)
        patience = chance.uniform(3, 10)
        killed += _kill_run(world, patience)
        world.story.append(f"(killed after {patience:.1f} s)")
        go_back(world, chance, before)
    world.run("--select", *KILLED)
    world.check(*KILLED)
    return f"{killed} of {KILLS} killed while they ran"


def _kill_run(world: World, patience: float) -> bool:
    """`dbt run` in a process of its own; whether it still ran when it was killed."""
    process = _start_run(world)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def _start_run(world: World, target: str = "target") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dbt.cli.main", "run", *world.options(), "--select", *KILLED]
    with world.environment():
        return subprocess.Popen(
            command,
            cwd=world.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "scripts"),
                "DBT_TARGET_PATH": str(world.folder / target),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def pair(world: World, number: int) -> str:
    """Two dbt processes at once, between changes."""
    chance = random.Random(number)
    gave_way = 0
    for statements in drawn(number, 3):
        for statement in statements:
            world.change(statement)
        first = _start_run(world)
        time.sleep(chance.uniform(0, 3))
        second = _start_run(world, "target_of_the_second")
        gave_way += sum(process.wait() != 0 for process in (first, second))
        world.story.append("(two runs at once)")
    world.run("--select", *KILLED)
    world.check(*KILLED)
    return f"{gave_way} of 6 gave way"


TRIALS: dict[str, Callable[[World, int], str]] = {
    "history": history,
    "stop": stop,
    "kill": kill,
    "pair": pair,
}


def main() -> int:
    """Run the trials that are not yet in the record; exit code 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=TRIALS, action="append")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds of each kind")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after")
    options = parser.parse_args()

    record = Project(ROOT).lake / "soak-incremental.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    done = _results(record)
    os.environ["HEADWATERS_LAKE"] = str(record.parent / "soak-incremental")
    project = Project(ROOT)
    # a zone in which an hour comes twice, as some moments of `marks`
    zone = {"spark.sql.session.timeZone": "America/New_York"}
    running = engines.start(project, port=0, settings=INTERPRETED | zone)
    os.environ["HEADWATERS_ENGINE"] = running.remote
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(running.remote).getOrCreate()
    until = time.monotonic() + options.minutes * 60
    try:
        world = World(spark, SCHEMA, project.lake / "project")
        world.hooks = True
        for kind in options.kind or TRIALS:
            for number in range(options.first, options.first + (options.count or COUNTS[kind])):
                if (kind, number) in done or time.monotonic() > until:
                    continue
                result = _try(world, kind, number)
                print(kind, number, result["how"] or result["failure"] or "passed", flush=True)
                with record.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                done[kind, number] = result
    finally:
        spark.stop()
        engines.stop(project)
    record.with_suffix(".md").write_text(summary(list(done.values())))
    return int(any(result["failure"] for result in done.values()))


def _try(world: World, kind: str, number: int) -> dict[str, str]:
    began = time.monotonic()
    how = failure = ""
    first = len(world.story)
    try:
        if not world.story:
            world.reset()
        how = TRIALS[kind](world, number)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    steps = len(world.story) - first
    if failure:
        world.story = []
    seconds = f"{time.monotonic() - began:.0f}"
    return {
        "kind": kind,
        "seed": str(number),
        "how": how,
        "failure": failure,
        "seconds": seconds,
        "statements": str(steps),
    }


def _results(record: Path) -> dict[tuple[str, int], dict[str, str]]:
    if not record.exists():
        return {}
    found = [json.loads(line) for line in record.read_text().splitlines()]
    return {(result["kind"], int(result["seed"])): result for result in found}


def summary(results: list[dict[str, str]]) -> str:
    """The page of the documentation: what was tried, and every seed that failed."""
    lines = [
        "# Soak: histories, stops and kills",
        "",
        "For users who want evidence that incremental runs equal full refreshes.",
        "Written by `make soak-incremental`.",
        "",
        "Each trial changes small inputs at random and runs dbt over some of"
        f" {len(EXPECTED)} models of every strategy ({FEW} and their inputs; for kills"
        f" {len(KILLED)}).",
        "It compares their tables, row for row, with the result of plain SQL that DuckDB executes"
        " over the same inputs, or, for periods of validity, with a full refresh.",
        "To repeat the changes of a trial, run `python -m incremental.soak --kind KIND --first"
        " SEED --count 1`; the record of a failure has all earlier events of the tables.",
        "",
        f"Last run: {time.strftime('%Y-%m-%d')}, Python {platform.python_version()},"
        f" {os.cpu_count()} CPUs.",
        "",
        "| kind | trials | failed | seeds | changes and runs | minutes |",
        "|---|---|---|---|---|---|",
    ]
    for kind in TRIALS:
        chosen = [result for result in results if result["kind"] == kind]
        if chosen:
            seeds = _ranges(int(result["seed"]) for result in chosen)
            lines.append(
                f"| {kind} | {len(chosen)} | {sum(bool(result['failure']) for result in chosen)}"
                f" | {seeds} | {sum(int(r['statements']) for r in chosen)}"
                f" | {sum(int(r['seconds']) for r in chosen) / 60:.0f} |"
            )
    kills = [result["how"].split(" ") for result in results if result["kind"] == "kill"]
    met = sum(int(words[0]) for words in kills if words[0])
    if kills:
        lines += ["", f"{met} of {KILLS * len(kills)} SIGKILLs met a dbt that still ran."]
    failed = [result for result in results if result["failure"]]
    if failed:
        lines += ["", "## Failed", ""]
        lines += [
            f"- {result['kind']} {result['seed']}: {result['failure'].splitlines()[0]}"
            for result in failed
        ]
    return "\n".join(lines) + "\n"


def _ranges(numbers: Iterable[int]) -> str:
    """`1-3, 7` of 1, 2, 3 and 7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)


if __name__ == "__main__":
    sys.exit(main())
