"""Java's class data of Spark: an archive of loaded classes that makes Spark start faster.

Loading and verifying 20,000 classes takes half of the time to Spark's first answer. Java writes the
classes of one training run to an archive (`-XX:ArchiveClassesAtExit`), and maps it at the next
start (`-XX:SharedArchiveFile`). Java compares the archive with its own release and with every jar,
and ignores it if they differ: an archive can be outdated, but not wrong.

The set-up runs this before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from headwaters.platform import hadoop_defaults, processes
from headwaters.platform.jars import LOCKS, Java, Say, digest


def archive(pyspark: Path, java: Java) -> Path:
    """Return the path for the class data of this Spark on this Java."""
    spark = (pyspark / "version.py").read_text()
    first = hadoop_defaults.content().hex()
    text = f"{spark} {java.path.resolve()} {java.release} {first}"
    name = digest(LOCKS / "jars.sha256", text=text)
    return pyspark / f"headwaters-{name[:12]}.jsa"


def options(file: Path) -> str:
    """Return Java's options to start from an archive; Java silently ignores an unusable one."""
    return f"'-XX:SharedArchiveFile={file}' -Xlog:cds=off -Xlog:cds+dynamic=off"


def make(pyspark: Path, java: Java, python: Path, say: Say) -> bool:
    """Write the archive by a training run of Spark. Return true if there was none.

    `python` is the interpreter that has pyspark. Without the archive Spark only starts more slowly,
    so a failed run prints a message instead of an error.
    """
    file = archive(pyspark, java)
    if not os.access(pyspark, os.W_OK):
        return False
    hadoop_defaults.make(pyspark)
    if file.exists():
        return False
    say("preparing Java's class data, with which Spark starts for half the CPU (a minute, once)")
    with tempfile.TemporaryDirectory(dir=pyspark, prefix=".class-data-") as work:
        made = Path(work) / "classes.jsa"
        command = [str(python), "-m", "headwaters.platform.class_data_training", str(made)]
        # the set-up calls this before headwaters itself is installed
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        ran = processes.run(command, cwd=Path(work), environment=environment)
        if ran.returncode or not made.is_file():
            said = (ran.stdout.strip().splitlines() or ["no reason given"])[-1]
            say(f"note: there is no class data, so Spark starts more slowly: {said}")
            return True
        for outdated in pyspark.glob("headwaters-*.jsa"):
            outdated.unlink()
        made.replace(file)
    return True
