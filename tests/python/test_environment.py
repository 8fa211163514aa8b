"""Test that each failure of set-up gives one line with the remedy, and breaks nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwaters.devkit.environment import apart, setup
from headwaters.platform import jars as locked_jars
from headwaters.platform import processes
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.jars import changed_jar, find_java, install, read_hashes, spark_java
from headwaters.platform.spark_environment import check_environment, settings_named

ROOT = Path(__file__).resolve().parents[2]


def run_setup(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwaters.devkit.environment"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def fake_java(folder: Path, version: str) -> Path:
    """Return a JAVA_HOME whose java only knows its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2018-10-16' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return the parts of the project that set-up reads, with nothing prepared."""
    root = tmp_path / "copy"
    (root / "conf" / "spark").mkdir(parents=True)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (root / "conf" / name).write_bytes((ROOT / "conf" / name).read_bytes())
    (root / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return root


def test_a_program_is_asked_nothing_and_all_that_it_says_is_kept(tmp_path: Path) -> None:
    says = (
        "import sys; print('out', flush=True); sys.stderr.buffer.write(b'err \\xff\\n');"
        "sys.stderr.flush(); sys.exit(3 if sys.stdin.read() == '' else 0)"
    )
    ran = processes.run([sys.executable, "-c", says], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (3, "out\nerr \ufffd\n")
    with (tmp_path / "log").open("w") as log:
        named = "import os; print(os.environ['NAME'])"
        processes.run([sys.executable, "-c", named], environment={"NAME": "x"}, log=log)
    assert (tmp_path / "log").read_text() == "x\n"


def test_no_java_is_one_line_before_anything_is_made(copy: Path) -> None:
    ran = run_setup(copy, PATH="/nowhere", JAVA_HOME="")
    assert ran.returncode == 2
    assert ran.stderr.startswith("headwaters: [HW_NO_JAVA] no Java found: install Java 17 or 21")
    assert ran.stderr.count("\n") == 1
    assert not (copy / ".venv").exists()


def test_old_java_is_named_with_its_version(copy: Path, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "11.0.2")
    ran = run_setup(copy, JAVA_HOME=str(home))
    assert ran.returncode == 2
    assert f"{home}/bin/java is Java 11, too old for Spark 4.2: install Java 17 or 21" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21.0.1", 21), ("25", 25)])
def test_java_is_found_by_java_home(
    version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    assert find_java().major == major


def test_spark_itself_refuses_an_old_java_in_one_line(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "11.0.2")
    ran = subprocess.run(
        ["bash", "-c", f". {ROOT}/conf/spark/spark-env.sh"],
        env={**os.environ, "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        f"headwaters: [HW_NO_JAVA] no Java 17 or 21 ({home}/bin/java): install one, or set "
        "JAVA_HOME\n"
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/v/pyspark/conf/:/v/pyspark/jars/*", "/v/pyspark/jars/*"),
        ("/a.jar:/b c/*:/v/pyspark/conf/:/v/jars/*:/d.jar", "/a.jar:/b c/*:/v/jars/*:/d.jar"),
        ("/a.jar:/other/conf/:/v/jars/*", "/a.jar:/other/conf/:/v/jars/*"),
    ],
    ids=["as it is", "with jars of spark.driver.extraClassPath", "with another folder"],
)
def test_the_class_path_of_java_lacks_the_folder_of_settings_alone(
    given: str, kept: str, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    ran = subprocess.run(
        [ROOT / "conf" / "java" / "bin" / "java", "-cp", given, "Main", "a b"],
        env={**os.environ, "HEADWATERS_JAVA": str(java)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["-cp", kept, "Main", "a b"]


def test_no_package_index_is_one_line_and_the_next_setup_begins_anew(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = {
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }
    ran = run_setup(copy, **offline)
    assert ran.returncode == 1
    assert ran.stderr.startswith("headwaters: [HW_SET_UP] pip could not install the packages: ")
    assert "PIP_INDEX_URL" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert (copy / ".venv" / "setup.begun").exists()
    (copy / ".venv" / "left over").touch()
    monkeypatch.setattr(venv, "create", no_pip)
    with pytest.raises(WorkError, match=r"cannot make .*: no pip here \(.* python3-venv\)"):
        setup(copy, say=lambda line: None)
    assert [path.name for path in (copy / ".venv").iterdir()] == ["setup.begun"]


def no_pip(folder: Path, with_pip: bool) -> None:
    """Fail like `venv.create` on a Debian without python3-venv."""
    raise subprocess.CalledProcessError(1, "ensurepip", b"trouble\nno pip here\n")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_package_of_a_lock_is_installed_beside_pyspark_or_is_it(name: str) -> None:
    lock = (ROOT / "conf" / name).read_text()
    spark, others = apart(lock, ("pyspark", "py4j"))
    assert re.findall(r"^([\w.-]+)==", spark, flags=re.MULTILINE) == ["py4j", "pyspark"]
    assert sorted((spark + others).splitlines()) == sorted(lock.splitlines())


# -- jars, from a repository in a folder ---------------------------------------------------------

Jars = Callable[[], bool]


@pytest.fixture
def jars(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jars:
    """Return a function that installs `water-1.0.jar` into a pyspark that holds only Ivy."""
    import pyspark

    repository = tmp_path / "repository" / "org" / "example" / "water" / "1.0"
    repository.mkdir(parents=True)
    with zipfile.ZipFile(repository / "water-1.0.jar", "w") as jar:
        jar.writestr("spring", "clear")
    (repository / "water-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>water</artifactId><version>1.0</version></project>"
    )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="file://{tmp_path}/repository/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("HEADWATERS_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (copy / "conf" / "jars.xml").write_text(
        '<ivy-module version="2.0"><info organisation="test" module="jars"/><dependencies>'
        '<dependency org="org.example" name="water" rev="1.0" transitive="false"/>'
        "</dependencies></ivy-module>"
    )
    digest = subprocess.run(
        ["sha256sum", "water-1.0.jar"], cwd=repository, capture_output=True, text=True, check=True
    )
    (copy / "conf" / "jars.sha256").write_text(digest.stdout)
    own = copy / ".venv" / "pyspark"
    (own / "jars").mkdir(parents=True)
    for ivy in (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"):
        (own / "jars" / ivy.name).symlink_to(ivy)
    java = find_java()
    return lambda: install(own, java, copy / ".venv", lambda line: None, copy / "conf")


def test_jars_are_fetched_once(jars: Jars, copy: Path) -> None:
    assert jars() is True
    assert (copy / ".venv" / "pyspark" / "jars" / "water-1.0.jar").is_file()
    assert jars() is False


def test_two_commands_that_fetch_at_once_fetch_once(
    jars: Jars, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(*arguments: Any) -> None:
        fetched.append(arguments)
        actually(*arguments)

    actually = locked_jars._fetch
    monkeypatch.setattr(locked_jars, "_fetch", fetch)
    conf, own = copy / "conf", copy / ".venv" / "pyspark"
    given = (conf / "jars.xml", conf / "jars.sha256", own, find_java(), tmp_path / "jars")
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(locked_jars.fetch_locked, *given) for _ in range(2)]:
            done.result()
    assert len(fetched) == 1
    assert [jar.name for jar in (tmp_path / "jars").iterdir()] == ["water-1.0.jar"]


def test_a_jar_with_another_hash_is_not_installed(jars: Jars, copy: Path) -> None:
    lock = copy / "conf" / "jars.sha256"
    right = lock.read_text()
    lock.write_text("0" * 64 + right[64:])
    with pytest.raises(WorkError) as caught:
        jars()
    assert str(caught.value) == (
        f"[HW_JARS] water-1.0.jar has SHA-256 {right[:64]}, but jars.sha256 says "
        f"{'0' * 64}: nothing was installed"
    )
    assert not (copy / ".venv" / "pyspark" / "jars" / "water-1.0.jar").exists()
    lock.write_text(right)
    assert jars() is True


def test_a_jar_that_was_changed_is_noticed_and_fetched_again(
    jars: Jars, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headwaters.platform.jars.installed_pyspark", lambda: copy / ".venv/pyspark"
    )
    monkeypatch.setattr("headwaters.platform.jars.LOCKS", copy / "conf")
    assert jars() is True
    folder, locked = copy / ".venv/pyspark/jars", read_hashes(copy / "conf/jars.sha256")
    jar = folder / "water-1.0.jar"
    right = jar.read_bytes()
    assert changed_jar(folder, locked) == ""
    jar.write_bytes(right.replace(b"clear", b"muddy"))
    assert changed_jar(folder, locked) == str(jar)
    assert changed_jar(folder, locked) == str(jar)  # and is not taken for the new one
    with pytest.raises(UserError, match=r"HW_JARS\] .*/water-1\.0\.jar is not the one of"):
        spark_java()  # any command that starts Spark
    assert jars() is True
    assert spark_java() == find_java()
    assert jar.read_bytes() == right
    assert jars() is False
    jar.touch()
    assert changed_jar(folder, locked) == ""
    jar.unlink()
    assert changed_jar(folder, locked) == f"{jar} (missing)"


def test_a_killed_fetch_is_taken_up_again(jars: Jars, copy: Path) -> None:
    (copy / ".venv" / "jars.part").mkdir()
    (copy / ".venv" / "jars.part" / "half.jar").touch()
    assert jars() is True


def test_no_repository_is_one_line(
    jars: Jars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "offline.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="nowhere"/><resolvers>'
        '<ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:1/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("HEADWATERS_IVY_SETTINGS", str(settings))
    with pytest.raises(WorkError, match="the jars could not be fetched: ") as caught:
        jars()
    assert "HEADWATERS_IVY_SETTINGS" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mirror_that_is_not_there_is_named(jars: Jars, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_IVY_SETTINGS", "/nowhere/ivysettings.xml")
    with pytest.raises(UserError, match=r"is /nowhere/ivysettings\.xml, but there is no such file"):
        jars()


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    """Return folders of Spark: the installed one, others, and one without a program."""
    found: dict[str, Path] = {}
    for name, release in (("pyspark", "4.2.0"), ("same", "4.2.0"), ("old", "3.5.1")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "spark-submit").touch()
        (tmp_path / name / "jars").mkdir()
        (tmp_path / name / "jars" / f"spark-core_2.13-{release}.jar").touch()
        found[name] = tmp_path / name
    (tmp_path / "empty").mkdir()
    return {**found, "empty": tmp_path / "empty", "none": tmp_path / "none"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pyspark", None),
        ("same", None),
        ("old", "a Spark 3.5.1, and the installed pyspark is 4.2.0: unset it"),
        ("empty", "which has no bin/spark-submit: unset it"),
        ("none", "which has no bin/spark-submit: unset it"),
    ],
)
def test_the_home_of_another_spark_is_named_with_both_releases(
    homes: dict[str, Path], name: str, problem: str | None
) -> None:
    given = {"SPARK_HOME": str(homes[name])}
    if problem is None:
        check_environment(given, homes["pyspark"])
        return
    with pytest.raises(UserError) as raised:
        check_environment(given, homes["pyspark"])
    assert str(raised.value) == f"[HW_ENVIRONMENT] SPARK_HOME is {homes[name]}, {problem}"


def test_the_address_of_another_spark_is_named_without_its_token(homes: dict[str, Path]) -> None:
    check_environment({"SPARK_HOME": "", "SPARK_REMOTE": ""}, homes["pyspark"])
    with pytest.raises(UserError) as raised:
        check_environment({"SPARK_REMOTE": "sc://h:1/;token=secret"}, homes["pyspark"])
    assert str(raised.value) == (
        "[HW_ENVIRONMENT] SPARK_REMOTE is sc://h:1/, and this target starts a Spark of its own: "
        "unset it, or write it as spark.remote into server_side_parameters of a target"
    )


def test_a_failed_start_names_the_variables_with_settings_and_no_value() -> None:
    given = {"SPARK_CONF_DIR": "/etc/spark", "PYSPARK_SUBMIT_ARGS": "--conf a.secret=s x"}
    named = " (its settings also come from SPARK_CONF_DIR, PYSPARK_SUBMIT_ARGS)"
    assert [settings_named(given), settings_named({})] == [named, ""]
