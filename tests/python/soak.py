"""`make soak`: SIGKILL ingestion again and again, then prove that nothing is lost or twice.

`python tests/python/soak.py [kills]` (1,000 by default), resumable: lake, broker and the number of
kills so far are in `lake/soak`. Each round sends new records, runs the stream and kills it with its
Spark, at a named point or after a random time; every tenth round is audited against the broker.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random

from ingestion import ROOT, Ingester, audit, kill, numbered, start_worker, topic_stream

from headwaters import kafka
from headwaters.project import Project

TOPIC = "soak"
RECORDS = 500  # a round


def main(kills: int) -> int:
    """Go on from where the last call ended; 1 when an audit finds something wrong."""
    lake = ROOT / "lake" / "soak"
    os.environ["HEADWATERS_LAKE"] = str(lake)
    project = Project(ROOT)
    broker = kafka.start(project).servers
    kafka.make_topic(broker, TOPIC)
    state = lake / "soak.json"
    done = json.loads(state.read_text())["kills"] if state.exists() else 0
    declared = topic_stream(broker, TOPIC, batch=100)
    try:
        while done < kills:
            random = Random(done)
            sent = range(done * RECORDS, (done + 1) * RECORDS)
            kafka.send(broker, TOPIC, (numbered(number) for number in sent))
            point = random.choice(["bronze", "quarantine", "checkpoint", "time"])
            after = random.uniform(5, 20) if point == "time" else None
            how = {"point": point, "batch": random.randrange(4), "after": after}
            kill(lake, declared, lake / "scratch", how)
            done += 1
            state.write_text(json.dumps({"kills": done}))
            print(f"{done} kills ({point})", flush=True)
            if (done % 10 == 0 or done == kills) and not _right(lake, declared):
                return 1
    finally:
        kafka.stop(lake)
    return 0


def _right(lake: Path, declared: dict[str, object]) -> bool:
    with start_worker(lake / "scratch") as process:
        ingester = Ingester(process, lake)
        ingester.run(declared)
        (line, *_) = audit(ingester, declared)
    print(line, flush=True)
    return line.endswith("right")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
