"""The choice of a Java for Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from rigs.patience import HANG_S

from router.audit import java
from router.audit.database import AuditFailed


def fake(directory: Path, version: str) -> Path:
    """Write a java that prints its version, or else its arguments and a complaint."""
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\n'
        'echo "$@"; echo complaint >&2\n'
    )
    command.chmod(0o700)
    return command


def told(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)


def test_versions(tmp_path: Path) -> None:
    said = {"17.0.15": 17, "21-ea": 21, "1.8.0_392": 8, "": 0}
    found = {version: java.java_version(fake(tmp_path / f"v{version}", version)) for version in said}
    assert found == said
    assert java.java_version(tmp_path / "none") == 0


def test_the_users_java_comes_first_and_its_complaints_go_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path / "it's mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "it's mine"))
    home = java.java_home(tmp_path / "home")
    ran = told(home, "--add-modules=jdk.incubator.vector", "a b", "$c")
    assert (ran.stdout, ran.stderr) == ("--add-modules=jdk.incubator.vector a b $c\n", "")
    assert (home / java.ERRORS).read_text() == "complaint\n"


def test_nothing_that_an_interrupted_start_has_begun_runs_on_or_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's scripts start the Java; none of them may be left to complain that its directory has gone."""
    fake(tmp_path / "given", "21").write_text(
        "#!/bin/sh\ncase $1 in -version) echo 'version \"21\"' >&2;; *) echo on; exec sleep 600;; esac\n"
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "given"))
    home = java.java_home(tmp_path / "home")
    java.end_java(java.java_home(tmp_path / "never started"))
    script = f'"{home}/bin/java" x; echo complaint; "{home}/bin/java" x'
    environment = os.environ | {"JAVA_HOME": str(home)}
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        (home / java.PID).write_text("")  # the wrapper is about to write it
        java.end_java(home)
        assert process.stdout.read() == b""
        assert process.wait(HANG_S) == -signal.SIGKILL
    assert not (home / "bin" / "java").exists()


@pytest.mark.parametrize(
    ("number", "is_started"),
    [(signal.SIGINT, False), pytest.param(signal.SIGTERM, True, marks=pytest.mark.long)],
)
def test_an_audit_by_spark_ends_at_a_signal_with_a_line(
    number: signal.Signals, is_started: bool, fleets: Fleets, tmp_path: Path
) -> None:
    logs = fleets(4, 400, 0)
    (tmp_path / "near").mkdir()
    command = [
        sys.executable,
        "-m",
        "router",
        "audit",
        str(logs),
        "--engine",
        "spark",
        "--out",
        str(tmp_path / "near" / "out"),
    ]
    sign = "near/.router-audit-*/" + ("new/*" if is_started else "java/java.pid")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.glob(sign)):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        said = f"ended by {number.name} before it was done: what it had begun is removed\n"
        assert process.communicate(timeout=HANG_S) == ("", said)  # also: no Java is left that holds its output
    assert process.returncode == 128 + number
    assert list((tmp_path / "near").iterdir()) == []


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_a_java_home_that_cannot_be_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    if version:
        fake(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(AuditFailed, match="Java 11;" if version else "no Java that runs;"):
        java.java_home(tmp_path / "home")


def test_then_the_systems_if_it_is_new_enough_then_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    system = fake(tmp_path / "system", "17.0.1")
    monkeypatch.setenv("PATH", f"{system.parent}:/usr/bin:/bin")
    assert told(java.java_home(tmp_path / "one"), "x").stdout == "x\n"
    system.unlink()
    fake(tmp_path / "older", "11.0.1").rename(system)
    packaged = java.java_home(tmp_path / "two")
    ran = told(packaged, "--add-modules=jdk.incubator.vector", "-version")
    assert (ran.stdout, ran.stderr) == ("", "") and "openjdk" in (packaged / java.ERRORS).read_text()


def test_the_tests_see_no_java_of_this_machine() -> None:
    assert shutil.which("java") is None and "JAVA_HOME" not in os.environ


@pytest.mark.long
def test_an_audit_by_spark_where_no_java_is_installed(fleets: Fleets) -> None:
    """The test is slow, because it starts a Spark of its own."""
    logs = fleets(4, 400, 0)
    command = [sys.executable, "-m", "router", "audit", str(logs), "--engine", "spark", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    truth = json.loads((logs / TRUTH).read_text())
    found = json.loads(ran.stdout)
    assert (found["engine"], found["messages"]) == ("spark", truth["messages"])
