"""Settings for all tests: hypothesis has no time limits, only the packaged Java is found, Spark has one session, and
failures with an exception group are reported in a few lines."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import NodeId
from fleets.shared import Fleets
from hypothesis import settings
from rigs.files_in_memory import keep_them_in_memory
from rigs.group_reports import pytest_runtest_makereport  # noqa: F401
from rigs.hidden_java import hide_java
from rigs.local_stream import pytest_addoption, stand_in  # noqa: F401
from rigs.rewriting import pytest_collection, pytest_configure  # noqa: F401
from rigs.short_temporary_files import keep_them_short, short_place
from rigs.warm_start import WarmStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:  # As under nohup; children inherit it.
        signal.signal(number, default)

settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=12)

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings with which Spark goes through each expression instead of compiling it: to compile them costs more than to
read the few lines of the quick tests. `make long` compiles, as audits do."""
MADE_OBJECTS = 20_000
"""Objects that are made between two collections: at Python's 700, a world of simulated nodes spends a fourteenth of its
CPU time on collections that find nothing."""
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ


def _end_at_once() -> None:
    """End a worker without freeing the modules and tests, which takes it 2 s of CPU time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


keep_them_short()
SHADOWS = hide_java()  # Before the workers start: they inherit both.

gc.disable()  # What is imported and collected stays to the end.
if IS_WORKER:
    atexit.register(_end_at_once)  # after all others


def is_quick(config: pytest.Config) -> bool:
    """Whether these are the tests of `make test`."""
    return bool(config.option.markexpr == "not long")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let hypothesis try fewer examples in the quick tests; `make long` tries as many as it does by default. They keep
    their files in memory."""
    if is_quick(session.config):
        keep_them_in_memory()
    stand_in(session.config)
    settings.load_profile("quick" if is_quick(session.config) else "untimed")


def pytest_collection_finish() -> None:
    """Let the collector pass over the tests themselves, which stay to the end."""
    gc.freeze()
    gc.set_threshold(MADE_OBJECTS)
    gc.enable()


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        gc.unfreeze()
    if SHADOWS is not None:
        shutil.rmtree(SHADOWS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of an xdist group, else those of a file, on one worker: what they share is made once.

    xdist 3.8 appends the group to `_nodeid`, which pytest 9.2 no longer reads: without this no group holds.
    """
    if getattr(config.option, "loadgroup", False):
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            group = item.path.stem if mark is None else mark.args[0]
            item._id = NodeId.parse(f"{item.nodeid}@{group}")
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Return 0 for tests that share the Spark session, 1 for those that start processes, else 2: with the longest
    groups first, the workers end together (for `--no-loadscope-reorder`)."""
    if item.get_closest_marker("xdist_group") is not None:
        return 0
    return 1 if "e2e" in item.path.parts or "sabotage" in item.path.parts else 2


@pytest.fixture(scope="session", autouse=True)
def _warm_start(request: pytest.FixtureRequest) -> Iterator[None]:
    """The quick tests fork the commands that they start."""
    if not is_quick(request.config):
        yield
        return
    warm = WarmStart()
    warm.install()
    yield
    warm.close()


@pytest.fixture(scope="session", autouse=True)
def _runtime_directory() -> Iterator[None]:
    """Remove at the end where nodes put their sockets if their homes have long paths: one that is killed leaves it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory(prefix="run-", dir=short_place(), ignore_cleanup_errors=True) as path,
    ):
        Path(path).chmod(0o1777)  # As /tmp, for nodes of other users.
        patch.setenv("XDG_RUNTIME_DIR", path)
        yield


@pytest.fixture(scope="session")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Fleets:
    """Return logs of simulated fleets, written once for all workers."""
    base = tmp_path_factory.getbasetemp()
    return Fleets((base.parent if IS_WORKER else base) / "fleets")


@pytest.fixture
def packaged_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the JAVA_HOME for a child process that starts Spark without the router."""
    from router.audit.java import java_home

    home = java_home(tmp_path / "java")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from router.audit.java import java_home
    from spark_analytics.batch.audit import partitions_for
    from spark_analytics.batch.session import ADAPTIVE, local_session

    scratch = tmp_path_factory.mktemp("spark")
    if IS_WORKER:
        (tmp_path_factory.getbasetemp().parent / "spark-session").touch(exist_ok=False)  # A second one: no group holds.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java_home(scratch / "java")))
        on_interrupt = signal.getsignal(signal.SIGINT)
        session = local_session(2, "2g", str(scratch), log_bytes=0)
        signal.signal(signal.SIGINT, on_interrupt)  # pyspark's own would meet the signals that other tests raise
    # Both as an audit of logs of few bytes does: without, each shuffle before the first audit has 200 tasks.
    session.conf.set(ADAPTIVE, "false")
    session.conf.set("spark.sql.shuffle.partitions", str(partitions_for(0)))
    if is_quick(request.config):
        for name, value in INTERPRETED.items():
            session.conf.set(name, value)
    yield session
    session.stop()
