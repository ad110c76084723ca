"""A standalone cluster of Spark on loopback: a master and workers, each a process of its own, that a test can kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rigs.patience import HANG_S

_DEPLOY = "org.apache.spark.deploy"
_MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IS_UP = re.compile(r"Successfully registered with master")
READING, WRITING = "reading the lines", "writing the tables"
TASK_ENDED = r".* INFO TaskSetManager: Finished task .*"
"""Lines of a job, as patterns."""
Step = tuple[str, Callable[[], None] | None]
"""A pattern of a whole line, and what is done when it comes."""


class Told:
    """The lines of a process's output, read as they come."""

    def __init__(self, process: subprocess.Popen[str], on_line: Callable[[str], None] = lambda line: None) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(process, on_line), daemon=True)
        self._thread.start()

    def _read(self, process: subprocess.Popen[str], on_line: Callable[[str], None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            on_line(line)
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def first(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait for a line that matches."""
        with self._news:
            assert self._news.wait_for(lambda: self._ended or any(map(pattern.search, self.lines)), HANG_S), self.lines
            found = next(filter(None, map(pattern.search, self.lines)), None)
            assert found is not None, "".join(self.lines[-20:])
            return found

    def join(self) -> str:
        """Wait for the end; return all lines."""
        self._thread.join(HANG_S)
        return "".join(self.lines)


@dataclass
class SparkMaster:
    """Where `spark-submit` runs a job. `url`: of a master, or `local[…]`; `home`: the directory of Spark."""

    url: str
    home: Path
    environment: Mapping[str, str]

    def submit(
        self, arguments: Sequence[str], settings: Mapping[str, str], steps: Sequence[Step] = ()
    ) -> tuple[int, str]:
        """Run `spark-submit`; return its code and its output, both streams in one. `steps`: each waits for its line
        once those before it are done."""
        waiting = deque(steps)

        def on_line(line: str) -> None:
            if waiting and re.fullmatch(waiting[0][0], line.strip()):
                _, deed = waiting.popleft()
                if deed is not None:
                    deed()

        confs = [f"--conf={name}={value}" for name, value in settings.items()]
        command = [str(self.home / "bin" / "spark-submit"), "--master", self.url, *confs, *arguments]
        with subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            told = Told(process, on_line)
            try:
                code = process.wait(10 * HANG_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            said = told.join()
        assert not waiting, f"the job never said {', '.join(line for line, _ in waiting)}: {said[-3000:]}"
        return code, said


@dataclass
class StandaloneCluster(SparkMaster):
    """`workers`: their processes."""

    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def kill_executor(self) -> None:
        """Kill an executor of the first worker that has one."""
        pid = next(pid for worker in self.workers for pid in children(worker.pid))
        os.kill(pid, signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill the last worker, with the executors that it has."""
        worker = self.workers.pop()
        own = list(children(worker.pid))
        worker.kill()
        for pid in own:
            os.kill(pid, signal.SIGKILL)
        worker.wait(HANG_S)


@contextmanager
def standalone_cluster(
    home: Path, directory: Path, environment: Mapping[str, str], workers: int = 2
) -> Iterator[StandaloneCluster]:
    """Start a master and workers of one core and 1 GiB each; end them afterwards."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], Told]:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, Told(process)

    own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    try:
        _, told = start(f"{_DEPLOY}.master.Master", *own)
        found = StandaloneCluster(told.first(_MASTER_IS_UP)[1], home, environment)
        small = ("--cores", "1", "--memory", "1g")
        each = [
            start(f"{_DEPLOY}.worker.Worker", *own, *small, "--work-dir", str(directory / f"work-{number}"), found.url)
            for number in range(workers)
        ]
        for worker, told in each:
            told.first(_WORKER_IS_UP)
            found.workers.append(worker)
        yield found
    finally:
        for process in reversed(started):
            for pid in children(process.pid):
                kill(pid)
            process.kill()
            process.wait(HANG_S)
            assert process.stdout is not None
            process.stdout.close()


def children(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started and that still run."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
