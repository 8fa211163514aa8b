"""Kill ingestion again and again for `make soak`, then prove that no record is lost or repeated.

`python tests/python/soak.py [kills [minutes [lane]]]` (by default 1,000 kills and no limit) is
resumable: `lake/soak` has the lake, the broker and the record of past kills. Another lane,
`lake/soak-2`, may run at the same time, since one alone leaves half of two cores idle; kills of all
lanes count. Each round sends new records to a topic, lands them in a file and runs both streams. It
kills the process with its Spark, at a named point or after a random time. Every 25th round is
audited, against the broker and the files. The summary is `docs/soak-ingestion.md`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from ingestion import ROOT, Ingester, Node, audit, kill, node, numbered, start_worker, topic_stream

from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic, send
from headwaters.platform.project import Project

TOPIC = "soak"
RECORDS = 200  # of a round, in the topic and in a file; about as many as a killed run reads
SUMMARY = ROOT / "docs" / "soak-ingestion.md"


def main(kills: int, minutes: float, lane: int) -> int:
    """Continue from the end of the last call; return 1 if an audit finds something wrong."""
    until = time.monotonic() + 60 * minutes
    lake = ROOT / "lake" / (f"soak-{lane}" if lane > 1 else "soak")
    os.environ["HEADWATERS_LAKE"] = str(lake)
    broker = brokers.start(Project(ROOT)).servers
    make_topic(broker, TOPIC)
    state = lake / "soak.json"
    points: Counter[str] = Counter(json.loads(state.read_text()) if state.exists() else {})
    done = points.pop("rounds", 0)
    topic = topic_stream(broker, TOPIC, batch=100)
    files = node(
        {"id": "string", "amount": "decimal(8, 2)"}, {"batch": {"max_files": 1}}, name="files"
    )
    landing = lake / "landing" / "files"
    landing.mkdir(parents=True, exist_ok=True)
    try:
        while _killed().total() < kills and time.monotonic() < until:
            random = Random(done + (lane - 1) * 1_000_000)
            records = [numbered(n) for n in range(done * RECORDS, (done + 1) * RECORDS)]
            send(broker, TOPIC, records)
            hidden = landing / f".{done}.jsonl"
            hidden.write_text("".join(f"{value}\n" for _, value in records))
            hidden.rename(landing / f"{done}.jsonl")
            point = random.choice(["bronze", "quarantine", "checkpoint", "time"])
            after = random.uniform(0.5, 8) if point == "time" else None
            how = {"point": point, "batch": random.randrange(4), "after": after}
            killed = kill(lake, [topic, files], lake / "scratch", how)
            done += 1
            points[point] += killed  # a run may end before its point
            state.write_text(json.dumps(points | Counter(rounds=done)))
            print(f"{points.total()} kills in {done} rounds ({point})", flush=True)
            due = (killed and points.total() % 25 == 0) or _killed().total() >= kills
            if due and not _right(lake, [topic, files]):
                return 1
    finally:
        brokers.stop(lake)
    return 0


def _killed() -> Counter[str]:
    """Return the number of kills at each point, in all lanes."""
    found: Counter[str] = Counter()
    for state in (ROOT / "lake").glob("soak*/soak.json"):
        found += Counter(json.loads(state.read_text()))
    found.pop("rounds", None)
    return found


def _right(lake: Path, declared: list[Node]) -> bool:
    with start_worker(lake / "scratch") as process:
        ingester = Ingester(process, lake)
        ingester.run(*declared)
        lines = [line for one in declared for line in audit(ingester, one)]
    print(*lines, sep="\n", flush=True)
    (lake / "audit.txt").write_text("".join(f"{line}\n" for line in lines))
    audits = [file.read_text() for file in sorted((ROOT / "lake").glob("soak*/audit.txt"))]
    points = _killed()
    right = all(line.endswith("right") for line in lines)
    named = {"time": "after a random time", "checkpoint": "before the checkpoint's mark"}
    counts = "".join(
        f"| {named.get(point, f'before the append to {point}')} | {count:,} |\n"
        for point, count in sorted(points.items())
    )
    SUMMARY.write_text(
        "# Soak: ingestion\n\n"
        "For users who want evidence that ingestion is exactly once. Written by `make soak`; do "
        "not edit.\n\n"
        "A process ingests a Kafka topic and a folder of files, one record in ten malformed.\n"
        "The test kills it with `SIGKILL` together with its Spark, again and again, while new "
        "records arrive.\nThen `headwaters audit` compares both sources with bronze and "
        "quarantine, record by record.\n\n"
        f"| killed | times |\n|---|--:|\n{counts}| in all | {points.total():,} |\n\n"
        "The last audit of each lane:\n\n```text\n" + "".join(audits) + "```\n"
    )
    return right


def _stop(*_: object) -> None:
    """End as Ctrl-C does: the broker and the process that ingests end as well."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    wanted, limit, lane = [*sys.argv[1:], *["1000", "inf", "1"][len(sys.argv) - 1 :]]
    sys.exit(main(int(wanted), float(limit), int(lane)))
