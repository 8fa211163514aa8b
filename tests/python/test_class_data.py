"""Test Java's class data: Spark starts from it, and works without it."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from processes import environment

from headwaters.platform import class_data, hadoop_defaults
from headwaters.platform.hadoop_defaults import CLASS_PATH
from headwaters.platform.jars import find_java, installed_pyspark
from headwaters.platform.spark_driver import OPTIONS, driver_settings


def test_spark_starts_from_the_class_data_of_the_set_up(tmp_path: Path) -> None:
    pyspark, loaded = installed_pyspark(), tmp_path / "loaded.txt"
    told = driver_settings(tmp_path / "logs", {})
    assert class_data.options(class_data.archive(pyspark, find_java())) in told[OPTIONS]
    # on: Java ends if it cannot use the archive
    more = f"{told[OPTIONS]} -Xshare:on -Xlog:class+load:file={loaded}"
    first = ["--driver-class-path", told[CLASS_PATH]]
    ran = subprocess.run(
        [pyspark / "bin" / "spark-submit", *first, "--driver-java-options", more, "--version"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.findall(r" (\S+) source: shared objects file \(top\)", loaded.read_text())
    assert "org.apache.spark.deploy.SparkSubmit" in found


def test_a_training_run_that_fails_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = tmp_path / "pyspark"
    pyspark.mkdir()
    (pyspark / "version.py").write_text("__version__ = '4.2.0'\n")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named pyspark'\nexit 1\n")
    python.chmod(0o755)
    said: list[str] = []
    assert class_data.make(pyspark, find_java(), python, said.append)
    assert said[1:] == [
        "note: there is no class data, so Spark starts more slowly: No module named pyspark"
    ]
    assert {file.name for file in pyspark.iterdir()} == {"version.py", "headwaters-defaults.jar"}
    monkeypatch.setattr("headwaters.platform.spark_driver.installed_pyspark", lambda: pyspark)
    monkeypatch.setattr("headwaters.platform.spark_driver.spark_java", find_java)
    assert "SharedArchiveFile" not in driver_settings(tmp_path / "logs", {})[OPTIONS]


def test_a_local_spark_has_no_defaults_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert hadoop_defaults.class_path(tmp_path, {}) == {}  # not made
    hadoop_defaults.make(tmp_path)
    jar = hadoop_defaults.jar(tmp_path)
    with zipfile.ZipFile(jar) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            f"{service}-default.xml": b"<configuration/>\n"
            for service in ("hdfs", "mapred", "yarn")
        }
    assert hadoop_defaults.class_path(tmp_path, {"spark.master": "local[2]"}) == {
        CLASS_PATH: str(jar)
    }
    assert hadoop_defaults.class_path(tmp_path, {CLASS_PATH: "/a.jar"}) == {
        CLASS_PATH: f"{jar}:/a.jar"
    }
    assert hadoop_defaults.class_path(tmp_path, {"spark.master": "yarn"}) == {}
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert hadoop_defaults.class_path(tmp_path, {}) == {}
    monkeypatch.delenv("HADOOP_CONF_DIR")
    jar.write_bytes(b"another")
    assert hadoop_defaults.class_path(tmp_path, {}) == {}
