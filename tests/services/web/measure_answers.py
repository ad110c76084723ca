"""Measure empty answers of the web side beside starlette's on hypercorn: `measure_answers.py --beside PYTHON`.

PYTHON is an interpreter that has both of them and trio, as of `python -m venv beside` and `beside/bin/pip install
hypercorn starlette trio`. Short windows of each follow one another; a client asks over connections that stay open, and
asks again when the answer is there. Prints the rows of docs/measured/web.md, "The web side". Ratios are medians of
those of windows that follow each other: of the rates, and of the answering processes' CPU time for one answer. The web
side remembers the request before; what it does where no two requests are alike is measured, too."""

from __future__ import annotations

import argparse
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from rigs.ports import free_port

from router.actors.process import program
from router.settings.home import Home

CONNECTIONS = 16
START_S = 60.0
NODE = """[node]
listen = []
[[node.services]]
name = "web"
module = "services.web"
[services.web]
listen = "tcp://127.0.0.1:{listen}"
operator = "tcp://127.0.0.1:{port}"
"""
APP = """from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


async def empty(request):
    return Response()


async def bare(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


app = Starlette(routes=[Route("/health/live", empty)])
"""


class Server(NamedTuple):
    """Answers at a port; the CPU time counts of the process `pid` and of those that it has started. `is_unlike`: no two
    requests to it are alike."""

    name: str
    port: int
    pid: int
    is_unlike: bool = False


class Window(NamedTuple):
    answers_per_s: float
    cpu_ms: float


@contextmanager
def _running(name: str, port: int, command: list[str], folder: Path) -> Iterator[Server]:
    with (folder / f"{port}.stderr").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=said, stderr=said)
        try:
            _until_open(port)
            yield Server(name, port, process.pid)
        finally:
            process.terminate()
            process.wait()


def _until_open(port: int) -> None:
    by_s = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > by_s:
                raise
            time.sleep(0.1)


def _of_the_node(folder: Path) -> tuple[int, list[str]]:
    home, port = Home(folder / "home"), free_port()
    home.create("edge")
    home.config_path.write_text(NODE.format(port=port, listen=free_port()))
    return port, program("router", "--home", str(home.path), "serve")


def _of_hypercorn(folder: Path, python: str, worker: str, app: str) -> tuple[int, list[str]]:
    (folder / "beside_app.py").write_text(APP)
    port = free_port()
    command = [python, "-m", "hypercorn", "--worker-class", worker, "--bind", f"127.0.0.1:{port}", f"beside_app:{app}"]
    return port, command


def _answering(pid: int) -> list[int]:
    """Return the processes that answer: of a node its service apart, of hypercorn all."""
    tree = [pid]
    for one in tree:  # which grows meanwhile
        for task in Path(f"/proc/{one}/task").iterdir():
            tree += [int(child) for child in (task / "children").read_text().split()]
    apart = [one for one in tree if b"router.service.apart" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return apart or tree


def _cpu_ns(pids: list[int]) -> int:
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(task.read_text().split()[0]) for task in tasks)


def window(server: Server, seconds: float) -> Window:
    """Return what a server did in so many seconds."""
    head = f"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    asked = f"{head}\r\n".encode()
    sockets = {one.fileno(): one for one in (_opened(server.port) for _ in range(CONNECTIONS))}
    ready = select.epoll()
    for number, one in sockets.items():
        ready.register(number, select.EPOLLIN)
        one.sendall(asked)
    pids, answers = _answering(server.pid), 0
    before, began = _cpu_ns(pids), time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        for number, _ in ready.poll(1):
            _take_answer(sockets[number])
            answers += 1
            sockets[number].sendall(f"{head}X-Number: {answers}\r\n\r\n".encode() if server.is_unlike else asked)
    spent = _cpu_ns(pids) - before
    for one in sockets.values():
        one.close()
    return Window(answers / (now - began), spent / 1e6 / answers)


def _opened(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def _take_answer(one: socket.socket) -> None:
    """Read a whole answer, which has no body, or one of few bytes."""
    data = one.recv(65536)
    while b"\r\n\r\n" not in data or (b"Content-Length: 6" in data and not data.endswith(b"\n")):
        more = one.recv(65536)
        if not more:
            raise ConnectionError("the server has closed a connection")
        data += more
    assert data.startswith(b"HTTP/1.1 200"), data


def show(rounds: list[Mapping[str, Window]]) -> None:
    first, *others = rounds[0]
    for name in (first, *others):
        rate = median(one[name].answers_per_s for one in rounds)
        cpu = median(one[name].cpu_ms for one in rounds)
        print(f"{name}: {rate:,.0f} empty answers a second, {cpu:.3f} ms of CPU for one")
    for name in others[1:]:
        faster = median(one[first].answers_per_s / one[name].answers_per_s for one in rounds)
        share = median(one[first].cpu_ms / one[name].cpu_ms for one in rounds)
        print(f"beside {name}: {faster:.2f} × its rate (goal: 2.5), {share:.2f} × its CPU (goal: 0.3)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure empty answers of the web side beside hypercorn's.")
    parser.add_argument("--beside", metavar="PYTHON", required=True, help="an interpreter with hypercorn and starlette")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    kinds = [(worker, app) for worker in ("asyncio", "trio") for app in ("app", "bare")]
    with tempfile.TemporaryDirectory(prefix="router-answers-") as place, ExitStack() as stack:
        folder = Path(place)
        servers = [stack.enter_context(_running("the web side", *_of_the_node(folder), folder))]
        servers.append(servers[0]._replace(name="the web side, no two requests alike", is_unlike=True))
        for worker, app in kinds:
            name = f"{'starlette' if app == 'app' else 'a bare function'} on hypercorn's {worker}"
            found = _of_hypercorn(folder, given.beside, worker, app)
            servers.append(stack.enter_context(_running(name, *found, folder)))
        for one in servers:
            window(one, 1.0)  # what is imported at first does not count
        show([{one.name: window(one, given.seconds) for one in servers} for _ in range(given.rounds)])


if __name__ == "__main__":
    main()
