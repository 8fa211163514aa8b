"""The set-up: the virtual environment, the jars, and the Java that Spark runs on.

`make` runs this module with the system's Python before anything is installed, so it imports only
the standard library. `headwaters setup` runs the same code inside the environment.

Each completed step writes a stamp with the digest of its inputs. A second call compares digests and
ends at once. After a killed call, the next one continues.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headwaters.platform import atomic_write, class_data, processes
from headwaters.platform.errors import CodedError, UserError, WorkError, exit_code
from headwaters.platform.jars import Say, digest, find_java, install, read_stamp
from headwaters.platform.spark_version import JAVA_PROVEN, SPARK_PROVEN
from headwaters.platform.waiting import EVERY, during

PYTHON_FROM, PYTHON_BEFORE = (3, 11), (3, 14)
ALONE = ("--no-deps", "--no-index")  # what pip installs from a folder


def setup(root: Path, dev: bool = False, say: Say = print) -> bool:
    """Complete `<root>/.venv`: packages, jars, Spark's configuration. Return true if it changed.

    `dev` adds the tools of the checks. Raises UserError for what the user must provide (Python,
    Java), WorkError for failures (network, disk, a jar with another checksum).
    """
    if not PYTHON_FROM <= sys.version_info[:2] < PYTHON_BEFORE:
        have = ".".join(map(str, sys.version_info[:2]))
        raise UserError(
            "HW_SET_UP",
            f"this is Python {have}: headwaters needs 3.11, 3.12 or 3.13 "
            "(make PYTHON=python3.11 …)",
        )
    java = find_java()
    if java.major not in JAVA_PROVEN:
        say(
            f"note: Java {java.major} is not one that Spark {SPARK_PROVEN} was proven on: "
            f"{' and '.join(map(str, JAVA_PROVEN))} are"
        )
    folder = root / ".venv"

    def complete_spark() -> bool:
        pyspark = _pyspark(folder)
        worked = install(pyspark, java, folder, say)
        _link(root / "conf" / "spark", pyspark / "conf")
        return class_data.make(pyspark, java, folder / "bin" / "python", say) or worked

    try:
        with during("setting up", first=EVERY):
            worked = _packages(root, folder, dev, say, complete_spark)
            worked |= complete_spark()
    except OSError as error:
        raise WorkError(
            "HW_SET_UP",
            f"set-up failed at {error.filename or root}: {error.strerror}; it resumes from here "
            "when that is fixed",
        ) from error
    if worked:
        say(f"ready: {folder}")
    return worked


# -- packages ------------------------------------------------------------------------------------


def _packages(
    root: Path, folder: Path, dev: bool, say: Say, complete_spark: Callable[[], object]
) -> bool:
    lock = root / "conf" / ("requirements-dev.txt" if dev else "requirements.txt")
    # The development lock includes the runtime's, so its stamp is good for both.
    for name in {lock.name, "requirements-dev.txt"}:
        if read_stamp(folder / f"{name}.sha256") == _packages_digest(root, folder, name):
            return False
    begun = folder / "setup.begun"
    if begun.exists():
        # A killed set-up leaves half an environment, and pip may overlook the missing parts.
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    begun.touch()
    for stamp in folder.glob("requirements*.sha256"):
        stamp.unlink()
    count = len(re.findall(r"^[\w.\[\]-]+==", lock.read_text(), flags=re.MULTILINE))
    say(f"installing {count} packages into {folder.name} (a minute or two, once)")
    if not (folder / "bin" / "python").exists():
        try:
            venv.create(folder, with_pip=True)
        except subprocess.CalledProcessError as error:
            raise WorkError(
                "HW_SET_UP",
                f"Python cannot make a virtual environment in {folder}: {_last_line(error.output)} "
                "(Debian and Ubuntu: apt install python3-venv)",
            ) from error
    _install(folder, lock.read_text(), complete_spark)
    _pip(folder, ["install", *ALONE, "--no-build-isolation", "-e", str(root)])
    atomic_write.write(folder / f"{lock.name}.sha256", _packages_digest(root, folder, lock.name))
    begun.unlink()
    return True


def _packages_digest(root: Path, folder: Path, lock: str) -> str:
    # includes the folder's path, because a moved or copied environment does not work
    return digest(root / "conf" / lock, root / "pyproject.toml", text=str(folder.resolve()))


def _install(folder: Path, lock: str, complete_spark: Callable[[], object]) -> None:
    """Install the packages of a lock into the environment.

    pyspark is published only as source, half a gigabyte. While pip installs the other packages, its
    wheel is built, uncompressed, because only this environment uses it, and `complete_spark` adds
    jars and class data to it.
    """
    work = folder / "wheels"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    spark, others = work / "pyspark.txt", work / "others.txt"
    for file, block in zip((spark, others), apart(lock, ("pyspark", "py4j")), strict=True):
        file.write_text(block)
    # the lock has all dependencies, as `pip check` proves at the end
    locked = ["--no-deps", "--require-hashes", "-r"]
    wheel = ["wheel", *locked, str(spark), "--wheel-dir", str(work)]
    wheel += ["--config-settings=--build-option=--compression=stored"]

    def install_spark() -> None:
        _pip(folder, wheel, "wheel.log")
        _pip(folder, ["install", *ALONE, *map(str, work.glob("*.whl"))], "wheel.log")
        complete_spark()

    with ThreadPoolExecutor(1) as beside:
        spark_there = beside.submit(install_spark)
        _pip(folder, ["install", *locked, str(others)])
        spark_there.result()
    _pip(folder, ["check"])
    shutil.rmtree(work)


def apart(lock: str, names: Collection[str]) -> tuple[str, str]:
    """Split a lock into the lines of some packages and those of the others."""
    blocks = re.split(r"^(?=[\w.-]+(?:\[|==))", lock, flags=re.MULTILINE)
    own = [block for block in blocks if block.partition("==")[0] in names]
    return "".join(own), "".join(block for block in blocks if block not in own)


def _pip(folder: Path, arguments: Sequence[str], log: str = "setup.log") -> None:
    file = folder / log
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments]
    # in a Spark user's shell, PYTHONPATH may have another pyspark, which pip would accept
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    with file.open("a") as output:
        ran = processes.run(list(map(str, command)), environment=environment, log=output)
    if ran.returncode:
        lines = file.read_text(errors="replace").splitlines()
        said = [line for line in lines if "ERROR" in line] or lines[-1:]
        reason = said[0].removeprefix("ERROR: ") if said else f"exit code {ran.returncode}"
        copy = folder.parent / "setup.log"
        shutil.copy(file, copy)
        raise WorkError(
            "HW_SET_UP",
            f"pip could not install the packages: {reason} (all of it in {copy}; another index is "
            "named by PIP_INDEX_URL or pip's configuration)",
        )


def _pyspark(folder: Path) -> Path:
    found = sorted(folder.glob("lib/python3*/site-packages/pyspark"))
    if len(found) != 1:
        raise WorkError(
            "HW_NO_PYSPARK", f"{folder} has no pyspark: delete {folder} and run the set-up again"
        )
    return found[0]


def _link(target: Path, link: Path) -> None:
    if link.is_symlink() and link.resolve() == target.resolve():
        return
    with atomic_write.draft(link) as path:
        path.symlink_to(target.resolve())


def _last_line(output: bytes | str | None) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"


def main() -> int:
    """Run `python -m headwaters.devkit.environment [--dev]` from the project's root."""
    try:
        setup(Path.cwd(), dev="--dev" in sys.argv[1:])
    except CodedError as error:
        print(f"headwaters: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print("headwaters: stopped; the next set-up resumes from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
