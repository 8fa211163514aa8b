"""A jar with empty defaults of HDFS, MapReduce and YARN, first on the class path of a local Spark.

Spark Connect runs each statement in a new thread, and Hive's embedded metastore then reads all of
Hadoop's defaults again. A local Spark needs none of these three; site files keep their effect.

The set-up runs this before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

CLASS_PATH = "spark.driver.extraClassPath"
FILES = ("hdfs-default.xml", "mapred-default.xml", "yarn-default.xml")
_WRITTEN = 315_532_800  # seconds: 1980, as the files in it
# The variables of a machine that belongs to a Hadoop cluster.
_OF_CLUSTERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def jar(pyspark: Path) -> Path:
    """Return the path of the jar of this Spark."""
    return pyspark / "headwaters-defaults.jar"


def content() -> bytes:
    """Return the bytes of the jar."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in FILES:
            archive.writestr(zipfile.ZipInfo(name), "<configuration/>\n")
    return written.getvalue()


def make(pyspark: Path) -> None:
    """Write the jar, unless it is there, with the time that Java's class data expects."""
    if not is_made(pyspark):
        jar(pyspark).write_bytes(content())
        os.utime(jar(pyspark), (_WRITTEN, _WRITTEN))


def is_made(pyspark: Path) -> bool:
    """Return true if the jar is there, unchanged."""
    file = jar(pyspark)
    return file.is_file() and file.read_bytes() == content()


def class_path(pyspark: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting for a Spark with these settings; empty if it may need the defaults."""
    is_local = settings.get("spark.master", "local[*]").startswith("local[")
    if not is_local or any(map(os.environ.get, _OF_CLUSTERS)) or not is_made(pyspark):
        return {}
    given = [settings[CLASS_PATH]] if settings.get(CLASS_PATH) else []
    return {CLASS_PATH: os.pathsep.join([str(jar(pyspark)), *given])}
