"""The jars that Spark needs in addition to its own, and the Java that it runs on.

jars.xml names each jar with its version and nothing transitive, jars.sha256 has their hashes; both
belong to the package. They are downloaded into the installed pyspark (by `headwaters jars`, or the
set-up of a checkout). `spark.jars.packages` would resolve dozens at each start, and put older
copies of Spark's own libraries on the class path.

The set-up runs this before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headwaters.platform import atomic_write, processes
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.spark_version import JAVA_PROVEN, SPARK_PROVEN

INSTALL_JAVA = (
    "install Java 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless; macOS: "
    "brew install openjdk@17) and put it on PATH, or set JAVA_HOME"
)

# The folder of jars.xml and jars.sha256.
LOCKS = Path(__file__).resolve().parent

Say = Callable[[str], None]


@dataclass(frozen=True)
class Java:
    """The Java that Spark will start: conf/spark/spark-env.sh chooses by the same rule."""

    path: Path
    major: int
    release: str


def find_java(variable: str = "JAVA_HOME") -> Java:
    """Return the Java of JAVA_HOME, or of another variable; or else the first on PATH.

    Raises UserError if there is none, or one older than 17.
    """
    home = os.environ.get(variable)
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        where = f"{variable} is {home}, but there is no bin/java in it" if home else "no Java found"
        raise UserError("HW_NO_JAVA", f"{where}: {INSTALL_JAVA}")
    asked = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "((?:1\.)?(\d+)[^"]*)', asked.stderr)
    if version is None:  # macOS has a /usr/bin/java that only prints an advertisement
        said = [line.strip() for line in asked.stderr.splitlines() if line.strip()]
        if options := os.environ.get("JAVA_TOOL_OPTIONS"):
            wrong = [line for line in said if not line.startswith("Picked up")]
            raise UserError(
                "HW_NO_JAVA",
                f"{found} does not run with JAVA_TOOL_OPTIONS={options}: "
                f"{wrong[0] if wrong else 'it prints nothing'}",
            )
        reason = f" ({said[0]})" if said else ""
        raise UserError("HW_NO_JAVA", f"{found} is not a Java that runs{reason}: {INSTALL_JAVA}")
    java = Java(Path(found), int(version.group(2)), version.group(1))
    if java.major < min(JAVA_PROVEN):
        raise UserError(
            "HW_NO_JAVA",
            f"{found} is Java {java.major}, too old for Spark {SPARK_PROVEN}: {INSTALL_JAVA}",
        )
    return java


def installed_pyspark() -> Path:
    """Return the folder of this Python's pyspark, without importing it.

    Raises UserError if there is none.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "HW_NO_PYSPARK",
            "this Python has no pyspark: install headwaters with pip into its place",
        )
    return Path(spec.submodule_search_locations[0])


def spark_java() -> Java:
    """Return the Java that Spark will start, after checking the jars of its class path.

    Raises UserError for what the user must provide or repair.
    """
    java = find_java()
    if problem := changed_jar(installed_pyspark() / "jars", read_hashes(LOCKS / "jars.sha256")):
        raise UserError(
            "HW_JARS", f"{problem} is not the one of jars.sha256: `headwaters jars` fetches it"
        )
    return java


def install(pyspark: Path, java: Java, work: Path, say: Say, locks: Path = LOCKS) -> bool:
    """Download the locked jars into a pyspark. Return true if any were missing.

    `work` is a folder on the same disk for partial downloads; `locks` has the two locks. Raises
    WorkError if a jar cannot be downloaded, or has another checksum; then nothing is installed.
    """
    module, hashes = locks / "jars.xml", locks / "jars.sha256"
    locked = read_hashes(hashes)
    stamp = pyspark / "jars" / "headwaters.sha256"  # removed when pip replaces pyspark
    current = digest(module, hashes)
    before = read_stamp(stamp).split()
    if before[:1] == [current] and not changed_jar(pyspark / "jars", locked):
        return False
    say(f"fetching {len(locked)} jars (once)")
    part = work / "jars.part"
    with _alone():
        _fetch_right(module, hashes, pyspark, java, part)
        for name in set(before[1:]) - set(locked):
            (pyspark / "jars" / name).unlink(missing_ok=True)
        for name in locked:
            (part / name).replace(pyspark / "jars" / name)
        shutil.rmtree(part)
        atomic_write.write(stamp, "\n".join([current, *locked]))
    return True


@dataclass(frozen=True)
class CachedJars:
    """Locked jars in the cache of the user, for other programs than Spark, or for some Sparks.

    `lock` is the path of the lock, NAME.xml and NAME.sha256, without its ending.
    """

    lock: Path

    @property
    def _module(self) -> Path:
        return self.lock.with_suffix(".xml")

    @property
    def _hashes(self) -> Path:
        return self.lock.with_suffix(".sha256")

    @property
    def folder(self) -> Path:
        """Return their folder, which exists once all of them are right."""
        return cache_folder() / f"{self.lock.name}-{digest(self._module, self._hashes)[:12]}"

    @property
    def names(self) -> list[str]:
        """Return the names of their files."""
        return list(read_hashes(self._hashes))

    @property
    def are_fetched(self) -> bool:
        """Return true if they have been downloaded."""
        return self.folder.is_dir()

    def fetch(self) -> list[Path]:
        """Return their paths; download them once for all checkouts.

        Raises WorkError if they cannot be downloaded, and UserError if one was changed.
        """
        folder = self.folder
        if not self.are_fetched:
            fetch_locked(self._module, self._hashes, installed_pyspark(), find_java(), folder)
        if problem := changed_jar(folder, read_hashes(self._hashes)):
            raise UserError(
                "HW_JARS",
                f"{problem} is not the one of {self._hashes.name}: delete {folder}, and the next "
                "start fetches it",
            )
        return [folder / name for name in self.names]


def fetch_locked(module: Path, hashes: Path, pyspark: Path, java: Java, into: Path) -> None:
    """Download the jars of an ivy.xml into a folder that appears once all of them are right.

    Raises WorkError if one cannot be downloaded, or has another checksum.
    """
    part = into.with_name(f"{into.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with _alone():
        if not into.is_dir():  # another process has fetched them
            _fetch_right(module, hashes, pyspark, java, part)
            part.replace(into)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait for other processes that fetch: two at a time spoil Ivy's cache."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_right(module: Path, hashes: Path, pyspark: Path, java: Java, part: Path) -> None:
    shutil.rmtree(part, ignore_errors=True)
    _fetch(module, pyspark, java, part)
    if problem := _compare(part, read_hashes(hashes), module.name, hashes.name):
        shutil.rmtree(part)
        shutil.rmtree(_ivy_cache(), ignore_errors=True)  # its cache has the bad file
        raise WorkError("HW_JARS", f"{problem}: nothing was installed")


def read_hashes(path: Path) -> dict[str, str]:
    """Return `{file name: SHA-256}` of a file in the format of sha256sum."""
    pairs = (line.split() for line in path.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def changed_jar(folder: Path, locked: dict[str, str]) -> str:
    """Return a missing or wrong jar, or ''. It hashes only new jars.

    A jar counts as unchanged while its size and time equal those at its last hash.
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
        if known.get(name) != found[name] and _sha256(jar) != expected:
            return str(jar)
    if known != found:
        with contextlib.suppress(OSError):  # the environment may be read-only
            atomic_write.write(stamp, json.dumps(found))
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(module: Path, pyspark: Path, java: Java, into: Path) -> None:
    """Download the jars of an ivy.xml, with pyspark's own Ivy."""
    command = [str(java.path), "-cp", f"{pyspark}/jars/*", "org.apache.ivy.Main"]
    if mirror := os.environ.get("HEADWATERS_IVY_SETTINGS"):
        if not Path(mirror).is_file():
            raise UserError(
                "HW_ENVIRONMENT", f"HEADWATERS_IVY_SETTINGS is {mirror}, but there is no such file"
            )
        command += ["-settings", mirror]
    command += [
        "-cache",
        str(_ivy_cache()),
        "-ivy",
        str(module),
        "-types",
        "jar",
        "bundle",
        "tar.gz",
    ]
    command += ["-retrieve", f"{into}/[artifact]-[revision].[ext]", "-warn"]
    ran = processes.run(command)
    if ran.returncode:
        log = into.parent / "setup.log"
        with log.open("a") as output:
            output.write(ran.stdout)
        reason = re.findall(r"\[Fatal Error\].*|No space left.*|Server access error.*", ran.stdout)
        raise WorkError(
            "HW_JARS",
            f"the jars could not be fetched: {reason[0] if reason else 'no repository has them'} "
            f"(all of it in {log}; a Maven mirror is named by HEADWATERS_IVY_SETTINGS, the path of "
            "an ivysettings.xml)",
        )


def cache_folder() -> Path:
    """Return the cache of downloads that all checkouts of this user share."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headwaters"


def _ivy_cache() -> Path:
    return cache_folder() / "ivy"


def _compare(folder: Path, locked: dict[str, str], module: str, hashes: str) -> str:
    """Return the problem of the downloaded jars, or ''."""
    names = {path.name for path in folder.glob("*")}
    if names != set(locked):
        differ = ", ".join(sorted(names ^ set(locked)))
        return f"{module} and {hashes} do not name the same jars ({differ})"
    for name, expected in locked.items():
        actual = _sha256(folder / name)
        if actual != expected:
            return f"{name} has SHA-256 {actual}, but {hashes} says {expected}"
    return ""


def read_stamp(stamp: Path) -> str:
    """Return the contents of a stamp, or '' without one."""
    return stamp.read_text() if stamp.is_file() else ""


def digest(*paths: Path, text: str = "") -> str:
    """Return the digest of files and a text, for a stamp."""
    return hashlib.sha256(
        b"".join([*(path.read_bytes() for path in paths), text.encode()])
    ).hexdigest()
