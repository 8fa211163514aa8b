"""The Java that Spark runs on, and the jars on its class path: those of the lock.

Set-up uses this before anything is installed, so it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headwaters import drafts
from headwaters.errors import UserError

JAVA_PROVEN = (17, 21)
INSTALL_JAVA = (
    "install Java 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless; macOS: "
    "brew install openjdk@17) and put it on PATH, or set JAVA_HOME"
)

CONF = Path(__file__).resolve().parents[2] / "conf"


@dataclass(frozen=True)
class Java:
    """The Java that Spark will start: conf/spark/spark-env.sh chooses by the same rule."""

    path: Path
    major: int


def find_java() -> Java:
    """JAVA_HOME's Java, or else the first on PATH.

    Raises UserError when there is none, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        where = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "no Java found"
        raise UserError(f"{where}: {INSTALL_JAVA}")
    asked = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    if version is None:  # macOS has a /usr/bin/java that only says where to get one
        said = [line.strip() for line in asked.stderr.splitlines() if line.strip()]
        if options := os.environ.get("JAVA_TOOL_OPTIONS"):
            wrong = [line for line in said if not line.startswith("Picked up")]
            raise UserError(
                f"{found} does not run with JAVA_TOOL_OPTIONS={options}: "
                f"{wrong[0] if wrong else 'it says nothing'}"
            )
        reason = f" ({said[0]})" if said else ""
        raise UserError(f"{found} is not a Java that runs{reason}: {INSTALL_JAVA}")
    java = Java(Path(found), int(version.group(1)))
    if java.major < min(JAVA_PROVEN):
        raise UserError(f"{found} is Java {java.major}, too old for Spark 4.2: {INSTALL_JAVA}")
    return java


def spark_java() -> Java:
    """The Java that Spark will start, on a class path of jars that are those of the lock.

    Raises UserError for what the user must provide or repair.
    """
    java = find_java()
    spec = importlib.util.find_spec("pyspark")
    assert spec and spec.submodule_search_locations
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    if problem := changed_jar(jars, read_hashes(CONF / "jars.sha256")):
        raise UserError(f"{problem} is not the one of conf/jars.sha256: `make setup` fetches it")
    return java


def read_hashes(path: Path) -> dict[str, str]:
    """`{file name: SHA-256}` of a file in the format of sha256sum."""
    pairs = (line.split() for line in path.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def changed_jar(folder: Path, locked: dict[str, str]) -> str:
    """A jar that is missing or not the locked one, or ''. Costs a hash only where a jar is new.

    Whose size and time are as they were when it was hashed is taken for what it was.
    """
    stamp = folder / "headwaters.verified"
    try:
        known = json.loads(read_stamp(stamp))
    except ValueError:
        known = {}
    found = {}
    for name, expected in locked.items():
        jar = folder / name
        if not jar.is_file():
            return f"{jar} (missing)"
        state = jar.stat()
        found[name] = [state.st_size, state.st_mtime_ns, expected]
        if known.get(name) != found[name] and sha256(jar) != expected:
            return str(jar)
    if known != found:
        with contextlib.suppress(OSError):  # an environment that may only be read
            drafts.write(stamp, json.dumps(found))
    return ""


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_stamp(stamp: Path) -> str:
    """What a stamp says, or '' where there is none."""
    return stamp.read_text() if stamp.is_file() else ""
