"""Run dbt on an embedded Spark in this process, and write the objects of its metastore as JSON.

`metastore_worker.py OUT STATEMENT…` runs the statements first. The current folder is the project.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dbt.adapters.headwaters.session import shared_session
from dbt.cli.main import dbtRunner

from headwaters.platform.project import Project


def main(out: str, *statements: str) -> None:
    """Run the statements and dbt; write its answers, and the description of every table."""
    project = Project.find()
    credentials = project.credentials
    spark = shared_session(credentials.server_side_parameters, credentials.folder)
    for statement in statements:
        spark.sql(statement)
    ran = dbtRunner().invoke(["--quiet", "run"])
    results = getattr(ran.result, "results", None) or []
    answers = {result.node.name: str(result.message) for result in results}
    described = {}
    for [schema] in spark.sql("show schemas").collect():
        described[schema] = [list(row) for row in spark.sql(f"describe schema {schema}").collect()]
        for row in spark.sql(f"show tables in {schema}").collect():
            name = f"{schema}.{row['tableName']}"
            rows = spark.sql(f"describe extended {name}").collect()
            described[name] = [list(row) for row in rows]
            rows = spark.sql(f"select * from {name} order by 1").collect()
            described[f"{name}: rows"] = [[str(value) for value in row] for row in rows]
    found = {"success": ran.success, "answers": answers, "described": described}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
