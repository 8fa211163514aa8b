"""Play random histories: `python -m incremental.fuzz --seed 1 --histories 1000`.

A seed and a number give a history: `--seed 1 --only 17` plays one of them again. Results are in
`<lake>/fuzz.jsonl`. A history with a result is not played again, so that a stopped call continues.
A failing history is shrunk and printed as a script.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from processes import INTERPRETED

from headwaters.devkit import engine as engines
from headwaters.platform.project import Project
from incremental.fuzz.draw import drawn
from incremental.fuzz.lot import HOW, Lot
from incremental.fuzz.shrink import shrunk
from incremental.world import ROOT

# An engine that runs for hours is worth the best machine code, and the cheapest collector.
LONG_JAVA = " ".join(
    ["-XX:+UseParallelGC", "-XX:ReservedCodeCacheSize=512m"]
    + [f"-D{name}={value}" for name, value in INTERPRETED.items()]
)
SIZE = 40  # histories of one dbt project


def main() -> int:
    """Play the histories that are not yet in the record; exit code 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="the first number")
    parser.add_argument("--histories", type=int, default=1000, help="how many numbers")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--models", type=int, default=3, help="at most so many in a history")
    parser.add_argument("--only", type=int, action="append", help="these numbers, recorded or not")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no lot after")
    parser.add_argument("--how", choices=HOW, default=HOW[0], help="what happens before each run")
    # by default a zone that repeats an hour, as some of the drawn moments do; Delta checks its
    # snapshots once more in each zone but UTC
    parser.add_argument("--zone", default="America/New_York", help="the time zone of the session")
    parser.add_argument("--no-shrinking", action="store_true")
    parser.add_argument("--keep-engine", action="store_true", help="let it run for the next call")
    options = parser.parse_args()

    record = Project(ROOT).local / "fuzz.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    played_before = _played(record)
    numbers = options.only or [
        number
        for number in range(options.first, options.first + options.histories)
        if (options.seed, number, options.steps, options.models) not in played_before
    ]
    os.environ["HEADWATERS_LAKE"] = str(record.parent / "fuzz")
    os.environ["HEADWATERS_JAVA_OPTIONS"] = LONG_JAVA
    project = Project(ROOT)
    zone = {"spark.sql.session.timeZone": options.zone}
    running = engines.start(project, port=0, settings=INTERPRETED | zone)
    os.environ["HEADWATERS_ENGINE"] = running.remote
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(running.remote).getOrCreate()
    until = time.monotonic() + options.minutes * 60
    failed = 0
    try:
        for lot in _lots(numbers):
            if time.monotonic() > until:
                break
            began, cpu = time.monotonic(), _cpu(running.pid)
            histories = {
                f"h{n}": drawn(options.seed, n, options.steps, options.models) for n in lot
            }
            played = Lot(
                spark,
                project.local / "project",
                histories,
                _is_stored(lot[0]),
                options.how,
                lambda text: print(f"  {text}", flush=True),
                # every third lot replaces small tables; all tables are small
                200_000 if lot[0] // SIZE % 3 == 2 else 0,
            )
            courses = played.play()
            for prefix, course in courses.items():
                result = {
                    "seed": options.seed,
                    "history": int(prefix[1:]),
                    "steps": options.steps,
                    "models": options.models,
                    "outcome": course.failure.kind if course.failure else "equal",
                    "failure": vars(course.failure) if course.failure else None,
                    "actions": course.answers,
                    "refused": course.refused,
                }
                if options.only:
                    print(json.dumps(result, indent=1), flush=True)
                else:
                    with record.open("a") as file:
                        file.write(json.dumps(result) + "\n")
            actions = Counter(
                answer.split(" ", 2)[2] for c in courses.values() for answer in c.answers
            )
            used = _cpu(running.pid) - cpu
            print(
                f"{lot[0]}-{lot[-1]}: {played.runs} runs of models, {used:.0f} CPU s,"
                f" {time.monotonic() - began:.0f} s, {used / max(played.runs, 1):.2f} CPU s a run;"
                f" {dict(played.seconds)} ms; {dict(actions.most_common())}",
                flush=True,
            )
            for prefix, course in courses.items():
                if course.failure is None:
                    continue
                failed += 1
                failure = course.failure
                print(
                    f"FAILED {options.seed}:{prefix[1:]} round {failure.round} {failure.model}"
                    f" {failure.kind}: {failure.text}",
                    flush=True,
                )
                if not options.no_shrinking:
                    print(shrunk(played, project.local / "shrinking", course), flush=True)
    finally:
        spark.stop()
        if not options.keep_engine:
            engines.stop(project)
    return int(failed > 0)


def _is_stored(number: int) -> bool:
    """Return whether the lot of this number stores keys and feeds, however few rows there are."""
    return number // SIZE % 2 == 1


def _lots(numbers: Sequence[int]) -> Iterator[list[int]]:
    lots: dict[int, list[int]] = {}
    for number in numbers:
        lots.setdefault(number // SIZE, []).append(number)
    yield from lots.values()


def _played(record: Path) -> set[tuple[int, ...]]:
    if not record.exists():
        return set()
    found = [json.loads(line) for line in record.read_text().splitlines()]
    return {(r["seed"], r["history"], r["steps"], r["models"]) for r in found}


def _cpu(pid: int) -> float:
    """Return the CPU seconds of the engine and of this process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks + own.ru_utime + own.ru_stime


if __name__ == "__main__":
    sys.exit(main())
