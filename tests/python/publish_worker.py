"""Publish a table to both places, again and again, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from publishing import Gold, to_kafka, to_postgres

if __name__ == "__main__":
    path, url, servers, topic = sys.argv[1:]
    table = Gold.__new__(Gold)
    table.path = Path(path)
    to = to_postgres(url), to_kafka(servers, topic)
    print("begun", flush=True)
    while True:
        for target in to:
            done = target.publish(table.source)
            if not done.already:  # nobody reads more than the first line
                print(done, flush=True)
