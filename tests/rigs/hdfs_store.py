"""A NameNode and a DataNode of HDFS on loopback, each a process of its own, and `hdfs dfs` for a test."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rigs.lake_packages import IVY
from rigs.patience import HANG_S
from rigs.spark_cluster import Told

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_SHELL = "org.apache.hadoop.fs.FsShell"
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
_OF_SPARK = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "slf4j-api-*.jar",
    "jcl-over-slf4j-*.jar",
    "log4j-*.jar",
)
_LOGGING = """rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %c{1}: %m%n%ex
"""
_IS_UP = re.compile(r"NameNode RPC up at: \S*?127\.0\.0\.1:(\d+)")
_HAS_JOINED = re.compile(r"successfully registered with NN")


class HdfsStore:
    """`url`: of the file system, as `hdfs://127.0.0.1:PORT`."""

    def __init__(self, url: str, java: Sequence[str]) -> None:
        self.url = url
        self._java = java

    def run(self, *arguments: str) -> None:
        """Run `hdfs dfs` with these arguments, as `-put`, `logs`, `/logs`."""
        command = [*self._java, _SHELL, f"-Dfs.defaultFS={self.url}", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def server_jar(spark_jars: Path) -> Path:
    """Return where `make lake` puts the servers of the Hadoop that is among these jars."""
    [client] = spark_jars.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    return IVY / "jars" / f"org.apache.hadoop_hadoop-client-minicluster-{version}.jar"


@contextmanager
def hdfs_store(java: Path, server: Path, spark_jars: Path, directory: Path) -> Iterator[HdfsStore]:
    """Format a file system, start its two processes, and end them afterwards.

    `java`: the command; `server`: the jar `hadoop-client-minicluster` of the version of Hadoop in `spark_jars`, which
    has all other classes; `directory`: for the blocks, made here.
    """
    directory.mkdir()
    (directory / "log4j2.properties").write_text(_LOGGING, "utf-8")
    (directory / "core-site.xml").write_text("<configuration/>", "utf-8")  # The shell asks for one.
    jars = (jar for pattern in _OF_SPARK for jar in sorted(spark_jars.glob(pattern)))
    command = [str(java), *_JAVA, "-cp", ":".join(map(str, [directory, server, *jars]))]
    names = _settings("hdfs://127.0.0.1:0", directory)
    done = subprocess.run(
        [*command, _NAME_NODE, *names, "-format"], check=False, capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    started: list[tuple[subprocess.Popen[str], Told]] = []
    try:
        found = _started([*command, _NAME_NODE, *names], started).first(_IS_UP)
        url = f"hdfs://127.0.0.1:{found[1]}"
        _started([*command, _DATA_NODE, *_settings(url, directory)], started).first(_HAS_JOINED)
        yield HdfsStore(url, command)
    finally:
        for process, told in reversed(started):
            process.kill()
            process.wait(HANG_S)
            told.join()
            assert process.stdout is not None
            process.stdout.close()


def _started(command: Sequence[str], started: list[tuple[subprocess.Popen[str], Told]]) -> Told:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    told = Told(process)
    started.append((process, told))
    return told


def _settings(url: str, directory: Path) -> list[str]:
    own: Mapping[str, str] = {
        "fs.defaultFS": url,
        "dfs.replication": "1",
        "dfs.namenode.name.dir": (directory / "names").as_uri(),
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.datanode.data.dir": (directory / "blocks").as_uri(),
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
    }
    return [f"-D{name}={value}" for name, value in own.items()]
