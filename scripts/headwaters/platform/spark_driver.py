"""The settings of a Spark driver on this machine: its log folder, and its class data."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from headwaters.platform import class_data, hadoop_defaults, object_store
from headwaters.platform.jars import installed_pyspark, spark_java
from headwaters.platform.spark_environment import check_environment

LOGGING = Path(__file__).with_name("log4j2.properties")
OPTIONS = "spark.driver.extraJavaOptions"


def driver_settings(logs: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a driver that writes its logs into a folder and starts from class data.

    If the settings name S3, they get its jars. Raises UserError for a missing Java, a jar with
    another checksum, or an environment that starts another Spark.
    """
    java = spark_java()
    pyspark = installed_pyspark()
    check_environment(os.environ, pyspark)
    told = logging_to(logs, object_store.with_jars(settings, _say))
    told |= hadoop_defaults.class_path(pyspark, told)
    archive = class_data.archive(pyspark, java)
    if archive.is_file() and "-XX:SharedArchiveFile=" not in told[OPTIONS]:
        told[OPTIONS] += " " + class_data.options(archive)
    return told


def _say(text: str) -> None:
    print(f"headwaters: {text}", file=sys.stderr)


def logging_to(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of an embedded Spark that writes its logs, and Derby's, into a folder.

    pip cannot write into pyspark's configuration, so Java gets options, after those in `settings`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = settings.get(OPTIONS, "")
    more = {"derby.stream.error.file": str(folder / "derby.log")}
    if "-Dlog4j2.configurationFile=" not in options:
        more["log4j2.configurationFile"] = LOGGING.as_uri()
        more["headwaters.logs"] = str(folder)
    for name, value in more.items():
        if f"-D{name}=" not in options:
            mark = '"' if "'" in value else "'"
            options += f" {mark}-D{name}={value}{mark}"
    return {**settings, OPTIONS: options.strip()}
