"""The variables by which another Spark of the machine reaches into the one that headwaters starts.

pyspark reads them before its own settings: a Spark of another release then starts, or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from headwaters.platform.errors import UserError

# Variables with settings, which Spark may need on this machine.
_OF_SETTINGS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME")


def check_environment(environ: Mapping[str, str], pyspark: Path) -> None:
    """Refuse an environment that starts another Spark than that of an installed pyspark.

    Raises UserError with the variable, and with both releases.
    """
    if remote := environ.get("SPARK_REMOTE"):
        raise UserError(
            "HW_ENVIRONMENT",
            f"SPARK_REMOTE is {remote.split(';')[0]}, and this target starts a Spark of its own: "
            "unset it, or write it as spark.remote into server_side_parameters of a target",
        )
    home = environ.get("SPARK_HOME")
    if not home or Path(home).resolve() == pyspark.resolve():
        return
    if not (Path(home) / "bin" / "spark-submit").is_file():
        raise UserError(
            "HW_ENVIRONMENT", f"SPARK_HOME is {home}, which has no bin/spark-submit: unset it"
        )
    other, own = release_of(Path(home)), release_of(pyspark)
    if other != own:
        raise UserError(
            "HW_ENVIRONMENT",
            f"SPARK_HOME is {home}, a Spark {other or 'of an unknown release'}, and the installed "
            f"pyspark is {own}: unset it",
        )


def release_of(home: Path) -> str | None:
    """Return the release of the Spark in a folder, by the name of its core's jar."""
    names = (jar.name for jar in (home / "jars").glob("spark-core_*.jar"))
    found = (re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", name) for name in names)
    return next((one[1] for one in found if one), None)


def settings_named(environ: Mapping[str, str]) -> str:
    """Return the variables with settings of Spark, as a part of a message about a failed start.

    Their values may have secrets.
    """
    given = [name for name in _OF_SETTINGS if environ.get(name)]
    return f" (its settings also come from {', '.join(given)})" if given else ""
