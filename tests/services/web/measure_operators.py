"""Measure what operators' pages and scrapes cost the router: `PYTHONPATH=tests python
tests/services/web/measure_operators.py`.

Windows in which 50 open operator's pages are kept up to date, and `/metrics` is asked for 5 times a second, follow
windows without, in turns: in each, one app publishes messages of 1 KiB to another as fast as the node takes them.
Prints the CPU time of the router's process for a message and the messages a second, as medians of both kinds of
windows, and the medians of the ratios of windows that follow each other: docs/measured/web.md, "The operator's
page"."""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import NamedTuple

import trio
from rigs.ports import free_port

from router.bench.rig import Clients, Rig, workbench
from router.bench.traffic import Traffic, make
from router.core.wire.crypto import SigningKey
from router.settings.config_services import NewHomeService

PAGES, SCRAPES_PER_S = 50, 5
BODY_BYTES, CHUNK = 1024, 48
GOAL = 0.05
PUBLISHER, SUBSCRIBER = SigningKey(b"p" * 32), SigningKey(b"s" * 32)


class Window(NamedTuple):
    """What the router's process did: its CPU time for a message in microseconds, and messages a second."""

    cpu_us: float
    per_s: float


def _cpu_ns(pid: int) -> int:
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


class Operators:
    """Open pages and a scraper, at the operator's door of a node. `cookie`: that of a login."""

    def __init__(self, port: int, link: str, pages: int, scrapes_per_s: float) -> None:
        self._port = port
        self._pages = pages
        self._pause_s = 1 / scrapes_per_s
        with self._asked(f"/login?{link.partition('?')[2]}") as answer:
            found = re.search(rb"Set-Cookie: ([^;]+)", _head(answer))
        assert found is not None, "the link has logged nobody in"
        self._cookie = f"Cookie: {found[1].decode()}\r\n"

    def _asked(self, path: str, headers: str = "") -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self._port))
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{headers}\r\n".encode())
        return one

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look as long as the block lasts."""
        with self._asked("/", self._cookie) as page:
            assert _head(page).startswith(b"HTTP/1.1 200")
        over = threading.Event()
        pages = [self._asked("/events", self._cookie) for _ in range(self._pages)]
        look = threading.Thread(target=self._look, args=(pages, over))
        look.start()
        try:
            yield
        finally:
            over.set()
            look.join()
            for one in pages:
                one.close()

    def _look(self, pages: list[socket.socket], over: threading.Event) -> None:
        """Read what comes for the pages, and ask for metrics over one connection."""
        scraper, due_s = self._asked("/metrics"), time.monotonic() + self._pause_s
        while not over.is_set():
            ready, _, _ = select.select([*pages, scraper], [], [], max(0.0, due_s - time.monotonic()))
            for one in ready:
                assert one.recv(1 << 20), "the node has closed a connection"
            if time.monotonic() >= due_s:
                due_s += self._pause_s
                scraper.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
        scraper.close()


def _head(answer: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = answer.recv(65536)
        assert more, "the node has closed a connection"
        data += more
    return data


async def window(clients: Clients, traffic: Traffic, first: int, count: int) -> Window:
    """Return what the router did while so many messages went from one app to another."""
    order = {"first": first, "count": count, "rate_per_s": 0.0, "chunk": CHUNK}
    reader = clients("subscribe", [SUBSCRIBER], traffic, durable=False, **order)
    writer = clients("publish", [PUBLISHER], traffic, **order)
    for client in (reader, writer):
        await client.start()
    before = _cpu_ns(clients.rig.pid)
    for client in (reader, writer):
        await client.go()
    wrote, read = await writer.result(), await reader.result()
    assert not (wrote["refused"] or read["lost"])
    return Window((_cpu_ns(clients.rig.pid) - before) / 1000 / count, count / (read["ended"] - wrote["began"]))


async def measure(rounds: int, count: int, pages: int, scrapes_per_s: float) -> list[tuple[Window, Window]]:
    """Return windows without and with operators, in pairs; which of a pair comes first changes."""
    found: list[tuple[Window, Window]] = []
    with workbench() as base:
        traffic, port = make(base / "traffic", 2 * (rounds + 1) * count, BODY_BYTES), free_port()
        web = NewHomeService({"listen": "", "operator": f"tcp://127.0.0.1:{port}"}, is_public=False)
        rig = Rig(base / "home", "unix", residents={"web": web})
        await rig.start()
        async with rig.running() as clients:
            opened = await rig.run("web", "open", "--json")
            operators = Operators(port, json.loads(opened.stdout)["url"], pages, scrapes_per_s)
            for number in range(rounds + 1):
                pair: dict[bool, Window] = {}
                for is_watched in ((False, True), (True, False))[number % 2]:
                    with operators.looking() if is_watched else nullcontext():
                        pair[is_watched] = await window(clients, traffic, (2 * number + len(pair)) * count, count)
                found.append((pair[False], pair[True]))
    return found[1:]  # the first pair warms up


def show(pairs: list[tuple[Window, Window]]) -> None:
    for name, at in (("without", 0), ("with", 1)):
        cpu, rate = median(one[at].cpu_us for one in pairs), median(one[at].per_s for one in pairs)
        print(f"{name}: {cpu:.1f} us of the router's CPU for a message, {rate:,.0f} messages a second")
    cpu = median(after.cpu_us / before.cpu_us for before, after in pairs) - 1
    core = median((after.cpu_us - before.cpu_us) * after.per_s for before, after in pairs) / 1e6
    rate = 1 - median(after.per_s / before.per_s for before, after in pairs)
    print(f"more CPU for a message: {cpu:.1%}, that is {core:.2%} of a core (goal: at most {GOAL:.0%})")
    print(f"fewer messages a second: {rate:.1%} (goal: at most {GOAL:.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what operators' pages and scrapes cost the router.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--messages", type=int, default=20_000, help="in each window")
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--scrapes", type=float, default=SCRAPES_PER_S, metavar="A_SECOND")
    given = parser.parse_args()
    show(trio.run(measure, given.rounds, given.messages, given.pages, given.scrapes))


if __name__ == "__main__":
    main()
