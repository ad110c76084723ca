"""A Spark session on this machine alone: no web page, no network but loopback, no log."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from pyspark.sql import SparkSession

MEMORY = "3g"
"""Memory of the one Java process of a local session; data that does not fit goes to disk."""
ADAPTIVE = "spark.sql.adaptive.enabled"
SETTINGS = {
    ADAPTIVE: "true",
    # Joins on some of the columns by which data lies together, such as the id, need no shuffle.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # A table by the minute repeats its keys: a row of some 250 bytes in memory may have two on disk, so by the size of
    # its files Spark would hand all of it to each task. Thirty lets it do so with tables up to a third of a MB on disk.
    "spark.sql.sources.fileCompressionFactor": "30",
    # The layout is read from disk a few times: it costs less to write it plainly and compress the blocks.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Numbers of a hostile log may overflow; they must not stop the audit of the others.
    "spark.sql.ansi.enabled": "false",
    # Only hexadecimal digits are put in lower case; the library for all alphabets takes seconds to begin.
    "spark.sql.icu.caseMappings.enabled": "false",
}
"""Spark settings of an audit in any session."""
SMALL_BYTES = 512 << 20
"""Logs of fewer bytes are read before Java's second compiler, C2, has paid for itself."""
FEW_BYTES = 64 << 20
"""Logs of fewer bytes are audited by the first plan of each step: planning it again takes a tenth of the audit of a few
MB, longer than a worse plan costs."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Whether Spark makes code of each plan that runs, compiles it, and lets Java compile it once more."""
_JAVA = (
    "-XX:+UseParallelGC -XX:MetaspaceSize=256m -XX:-DontCompileHugeMethods"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Options for Java: on few cores G1 costs an audit an eighth more, and loading classes at the start must not trigger a
collection. Spark makes one method of all that it does with a line as it reads it, so large that Java would interpret it
for ever. The bytecode of Spark's 10,000 classes is trusted: to verify it takes a fifth of the CPU time of a start."""
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",  # Errors are raised, and reported once.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.rdd.compress": "true",
    # Half of what is shuffled and kept are random keys and ids, as digits, which lz4, the default, does not shorten.
    "spark.io.compression.codec": "zstd",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.ui.showConsoleProgress": "false",
    # By default each call that builds an expression looks up its place in the source, for messages of errors that no
    # user reads, and each statement writes its plan down for the web page, which is off.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "0",
    # A list of many files is made by one task for each, of which there are as many as files by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # Each broadcast table takes a page, by default of 32 or 64 MB, even with one row for each log.
    "spark.buffer.pageSize": "4m",
    # A batch of a stream has some 300 pieces of compiled code, the same as the batch before.
    "spark.sql.codegen.cache.maxEntries": "2000",
}

_DEAF = ContextVar("deaf children", default=False)
"""Whether the children that are forked now ignore SIGTERM."""


def local_session(
    cores: int | None = None, memory: str = MEMORY, scratch: str | None = None, log_bytes: int | None = None
) -> SparkSession:
    """Return the session of this process, starting it if there is none (4 to 8 s). `scratch`: where Spark may spill;
    `log_bytes`: how many bytes are to be audited, if that is known."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores or '*'}]").appName("router audit")
    java = f"{_JAVA}{_huge_pages()}"
    if log_bytes is not None and log_bytes < SMALL_BYTES:
        java = f"{java} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"  # default 48m, full in a minute
    settings = _LOCAL | SETTINGS | {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": java}
    if scratch:
        settings |= {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    with deaf_children():
        return builder.getOrCreate()


@contextmanager
def deaf_children() -> Iterator[None]:
    """Let processes that this thread starts meanwhile ignore SIGTERM, as PySpark lets Java ignore Ctrl-C: one that is
    sent to the whole group, as systemd does, is this process's to obey, and Java ends when this one has. This holds for
    children that run Python between fork and exec, as PySpark's Java does (`preexec_fn`)."""
    before = _DEAF.set(True)
    try:
        yield
    finally:
        _DEAF.reset(before)


def _begin_deaf() -> None:
    """Ignore SIGTERM in a child that has just been forked, where it was asked to."""
    if _DEAF.get():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_begin_deaf)


def _huge_pages() -> str:
    """Return the option for huge pages, which save an audit a twentieth of its CPU time, if Java can have them (else it
    would complain on standard output)."""
    try:
        there = _HUGE_PAGES.read_text("ascii")
    except OSError:
        return ""
    return " -XX:+UseTransparentHugePages" if "[madvise]" in there or "[always]" in there else ""


def prepare(spark: SparkSession) -> None:
    """Set the options that an audit needs, for as long as the session lives."""
    _set(spark, SETTINGS)


@contextmanager
def interpreted(spark: SparkSession, is_so: bool = True) -> Iterator[None]:
    """Let the plans that are made meanwhile be interpreted (else compiled, as far as the session does): of few rows
    that takes less than to compile them; afterwards it is as before."""
    before = {name: str(spark.conf.get(name)) for name in _COMPILED}
    if is_so != (before == _INTERPRETED):
        _set(spark, _INTERPRETED if is_so else _COMPILED)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def from_java(error: BaseException) -> bool:
    """Whether the error comes from the bridge to Java, which a session over Connect does not have."""
    return type(error).__module__ == "py4j.protocol"
