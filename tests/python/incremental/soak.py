"""Hundreds of histories, stops and kills: `make soak-incremental`.

A trial is its kind and its seed, so `python -m incremental.soak --kind stop --first 17 --count 1`
repeats one. Results are kept in `<lake>/soak-incremental.jsonl`; trials that are there are not run
again, so a soak that was stopped goes on where it was. The engine runs on a lake of its own, in
`<lake>/soak-incremental`. docs/soak-incremental.md is written at the end.

- `history`  four rounds of random statements, a run and a comparison after each
- `stop`     the same statements; a run that stops before its n-th statement in every model; then
             the inputs go back to where they were, or on; a run and a comparison
- `kill`     the same with SIGKILL of a dbt process at a random moment
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
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from headwaters import engine as engines
from headwaters.project import Project
from incremental.histories import follow, histories
from incremental.world import INPUTS, ROOT, World

SCHEMA = "soak"
COUNTS = {"history": 200, "stop": 100, "kill": 100}


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


def history(world: World, number: int) -> str:
    """Four rounds of statements."""
    follow(world, drawn(number, 4))
    return ""


def interrupted(world: World, number: int, interrupt: Callable[[random.Random], str]) -> str:
    """A change, a run that does not end, then the inputs as before or changed again; a run."""
    chance = random.Random(number)
    change, again = drawn(number, 2)
    before = {name: world.version(f"{{inputs}}.{name}") for name in INPUTS}
    for statement in change:
        world.change(statement)
    how = interrupt(chance)
    world.story.append(f"({how})")
    if chance.random() < 0.5:
        for name, version in before.items():
            world.change(f"restore table {{inputs}}.{name} to version as of {version}")
    else:
        for statement in again:
            world.change(statement)
    world.run()
    world.check()
    return how


def stop(world: World, number: int) -> str:
    """Every model stops before the same statement."""

    def interrupt(chance: random.Random) -> str:
        last = chance.randint(1, 11)
        world.run(stop=lambda model, place, sql: place == last, expect=None)
        return f"stopped before statement {last}"

    return interrupted(world, number, interrupt)


def kill(world: World, number: int) -> str:
    """A dbt process of its own is killed."""

    def interrupt(chance: random.Random) -> str:
        command = [sys.executable, "-m", "dbt.cli.main", "run", *world.options()]
        with world.environment():
            process = subprocess.Popen(
                command,
                cwd=world.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        patience = chance.uniform(2, 30)
        try:
            process.wait(patience)
            return f"ended within {patience:.1f} s"
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return f"killed after {patience:.1f} s"

    return interrupted(world, number, interrupt)


TRIALS: dict[str, Callable[[World, int], str]] = {"history": history, "stop": stop, "kill": kill}


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
    running = engines.start(project, port=0)
    os.environ["HEADWATERS_ENGINE"] = running.address
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(running.address).getOrCreate()
    until = time.monotonic() + options.minutes * 60
    try:
        world = World(spark, SCHEMA, project.lake / "project")
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
    (ROOT / "docs" / "soak-incremental.md").write_text(summary(list(done.values())))
    return int(any(result["failure"] for result in done.values()))


def _try(world: World, kind: str, number: int) -> dict[str, str]:
    began = time.monotonic()
    how = failure = ""
    try:
        world.reset()
        how = TRIALS[kind](world, number)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    seconds = f"{time.monotonic() - began:.0f}"
    return {
        "kind": kind,
        "seed": str(number),
        "how": how,
        "failure": failure,
        "seconds": seconds,
        "statements": str(len(world.story)),
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
        "Written by `make soak-incremental`. Each trial begins with the same small inputs, changes",
        "them at random, runs dbt over models of every strategy, and compares every table, row for",
        "row, with plain SQL that DuckDB answers over the same inputs. A trial is repeated with",
        "`python -m incremental.soak --kind KIND --first SEED --count 1`.",
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
            seeds = sorted(int(result["seed"]) for result in chosen)
            lines.append(
                f"| {kind} | {len(chosen)} | {sum(bool(result['failure']) for result in chosen)}"
                f" | {seeds[0]}-{seeds[-1]} | {sum(int(r['statements']) for r in chosen)}"
                f" | {sum(int(r['seconds']) for r in chosen) / 60:.0f} |"
            )
    kills = Counter(r["how"].split(" ")[0] for r in results if r["kind"] == "kill" and r["how"])
    if kills:
        lines += ["", f"Of the kills, {kills['killed']} met a run that had not ended."]
    failed = [result for result in results if result["failure"]]
    if failed:
        lines += ["", "## Failed", ""]
        lines += [
            f"- {result['kind']} {result['seed']}: {result['failure'].splitlines()[0]}"
            for result in failed
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
