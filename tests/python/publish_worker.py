"""Publish a table to PostgreSQL or to a topic, again and again, until a kill."""

from __future__ import annotations

import sys
from pathlib import Path

from publishing import Gold, to_kafka, to_postgres

from headwaters.publish.target import Target

if __name__ == "__main__":
    path, url, topic = sys.argv[1:]
    table = Gold.__new__(Gold)
    table.path = Path(path)
    to: Target = to_kafka(url, topic) if topic else to_postgres(url)
    print("begun", flush=True)
    while True:
        done = to.publish(table.source)
        if not done.already:
            print(done, flush=True)
