"""A service that fails, in whatever way, is reported in `router status`; the node and other services go on."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from rigs.own_services import ask, block, findable, running, until

from router.cli.views import service_line, service_rows
from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.service.running import key_of
from router.settings.home import Home

HEAD = "from router.service.contract import Answer, Asked, Came, Compute, Computed, Message, Put, Send, Wake\n"
GOOD = """
class Good:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        match heard:
            case Message():
                count = int(self.kept.get(b"count", b"0")) + 1
                return [Put(b"count", b"%d" % count), Send(heard.source, b"%d" % count)]
            case Asked(number):
                return [Answer(number, {"pid": __import__("os").getpid()})]
        return []
"""
BAD = {
    "never_starts": ("def __init__(self, setup):\n        raise ValueError('no cellar')", "ValueError('no cellar')"),
    "fails_at_once": (
        "def __init__(self, setup): ...\n    def hear(self, heard, now):\n        return 1 / 0",
        "ZeroDivisionError",
    ),
    "exits": ("def __init__(self, setup):\n        raise SystemExit(3)", "asked for the end of the process"),
    "open_door": ("def __init__(self, setup): ...\n    def doors(self):\n        return {'a': 'tcp://127.0.0.1:PORT'}",
                  "its door \"a\" cannot be opened at tcp://127.0.0.1:"),
    "far_door": ("def __init__(self, setup): ...\n    def doors(self):\n        return {'a': 'unix:' + 120 * 'x'}",
                 "bytes, and a socket's may have 107; name another place"),
    "odd_door": ("def __init__(self, setup): ...\n    def doors(self):\n        return {'a': 'pipe:x'}", "write udp://HOST"),
}  # fmt: skip


def write(place: Path, name: str, body: str) -> None:
    place.mkdir(exist_ok=True)
    more = "" if "def hear" in body else "\n    def hear(self, heard, now):\n        return []\n"
    (place / f"{name}.py").write_text(f"{HEAD}\nclass Bad:\n    {body}\n{more}")


async def counted(home: Home, name: str) -> bytes:
    async with connect(home=home) as node:
        await node.send(key_of(home, name).public, b"count this")
        async for message in node.unicasts():
            return message.body
    raise AssertionError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return findable(tmp_path, monkeypatch)


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_each_failure_is_a_sentence_and_the_others_go_on(tmp_path: Path, place: Path, run: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name, (body, _) in BAD.items():
            write(place, name, body.replace("PORT", str(taken.getsockname()[1])))
        (place / "good_one.py").write_text(HEAD + GOOD)
        blocks = block("good", "good_one"), *(block(name, name, run) for name in BAD)
        async with running(tmp_path, *blocks) as (home, _):
            told: set[str] = set()  # on a slow machine the problem is at times that it blocked its process

            def all_told(services: dict[str, dict[str, Any]]) -> bool:
                told.update(name for name, (_, said) in BAD.items() if said in services[name]["problem"])
                return told == set(BAD)

            await until(home, all_told)
            assert await counted(home, "good") == b"1"


async def test_one_that_dies_apart_is_started_again_with_its_state(tmp_path: Path, place: Path) -> None:
    (place / "good_one.py").write_text(HEAD + GOOD)
    async with running(tmp_path, block("apart", "good_one", "apart"), block("inside", "good_one")) as (home, node):
        await until(home, lambda services: services["apart"]["state"] == "running")
        assert await counted(home, "apart") == b"1"
        os.kill((await ask(node, "apart pid"))["pid"], signal.SIGKILL)
        found = await until(home, lambda services: services["apart"]["starts"] == 2)
        assert "its process ended with exit code -9 (SIGKILL); it printed nothing" in found["apart"]["problem"]
        assert service_line(found["apart"]).endswith(" s ago)")
        assert await counted(home, "inside") == b"1", "the other one is not disturbed"
        assert await counted(home, "apart") == b"2"
        pid = (await ask(node, "apart pid"))["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # it ended with its node


DYING = {
    "a crash below Python": ("ctypes.string_at(0)", "code -11 (SIGSEGV)", "Fatal Python error: Segmentation fault"),
    "a hard exit": ("os._exit(7)", "code 7", "the last word"),
}


@pytest.mark.parametrize(("deed", "code", "line"), DYING.values(), ids=DYING)
async def test_what_a_process_printed_last_is_shown_when_it_does_not_say_why_it_ends(
    tmp_path: Path, place: Path, deed: str, code: str, line: str
) -> None:
    secret = SigningKey(os.urandom(32)).seed.hex()
    write(
        place,
        "dying",
        f"""def __init__(self, setup): ...
    def hear(self, heard, now):
        import ctypes, os, sys
        for n in range(100):
            print(n, 100 * "x y ", file=sys.stderr)
        print("the key {secret} and the last word", file=sys.stderr, flush=True)
        {deed}""",
    )
    async with running(tmp_path, block("dying", "dying", "apart")) as (home, _):
        found = await until(home, lambda services: bool(services["dying"]["problem"]))
    assert f"its process ended with exit {code}; the last" in found["dying"]["problem"]
    lines = found["dying"]["last_lines"]
    assert any(line in one for one in lines) and len(lines) <= 10 and all(len(one) <= 200 for one in lines)
    assert secret not in "".join(lines) and [row[1] for row in service_rows(found["dying"])][1:] == [
        f"| {one}" for one in lines
    ]


async def test_a_failure_is_past_when_it_runs_again(tmp_path: Path, place: Path) -> None:
    write(
        place,
        "sickly",
        "def __init__(self, setup): ...\n    def hear(self, heard, now):\n"
        "        if type(heard).__name__ == 'Tick':\n            return 1 / 0\n"
        "        return [Wake(0)] if isinstance(heard, Asked) else []",
    )
    async with running(tmp_path, block("sickly", "sickly", "apart")) as (home, node):
        await until(home, lambda services: services["sickly"]["state"] == "running")
        told = await ask(node, "sickly fail")
        assert "ended before it answered" in told["error"]
        said = "it failed and was started again: its rules failed on Tick 5 times in a row, the last time: Zero"
        await until(home, lambda services: services["sickly"]["problem"].startswith(said))


async def test_a_process_that_cannot_load_its_service_says_why(tmp_path: Path, place: Path) -> None:
    """The file is damaged after the node has loaded it."""
    (place / "good_one.py").write_text(HEAD + GOOD)
    async with running(tmp_path, block("good", "good_one", "apart")) as (home, node):
        await until(home, lambda services: services["good"]["state"] == "running")
        (place / "good_one.py").write_text("def")
        os.kill((await ask(node, "good pid"))["pid"], signal.SIGKILL)
        await until(home, lambda services: "SyntaxError" in services["good"]["problem"])


async def test_a_job_whose_worker_dies_has_failed_and_the_next_one_is_done(tmp_path: Path, place: Path) -> None:
    (place / "deadly.py").write_text(f"""{HEAD}
import os


def work(argument):
    return os.kill(os.getpid(), 9) if argument == b"die" else argument.upper()


class Deadly:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        match heard:
            case Asked(number, word):
                return [Compute("deadly:work", word.encode(), str(number))]
            case Computed(tag, result, error):
                return [Answer(int(tag), {{"result": result.decode(), "error": error}})]
        return []
""")
    async with running(tmp_path, block("deadly", "deadly")) as (home, node):
        await until(home, lambda services: services["deadly"]["state"] == "running")
        for word, result, failed in (("live", "LIVE", False), ("die", "", True), ("again", "AGAIN", False)):
            told = await ask(node, f"deadly {word}")
            assert (told["result"], bool(told["error"])) == (result, failed), told


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_two_instances_of_one_module_keep_apart_what_is_theirs(tmp_path: Path, place: Path, run: str) -> None:
    (place / "good_one.py").write_text(HEAD + GOOD)
    async with running(tmp_path, block("first", "good_one", run), block("second", "good_one", run)) as (home, _):
        await until(home, lambda services: all(one["state"] == "running" for one in services.values()))
        assert [await counted(home, name) for name in ("first", "first", "second")] == [b"1", b"2", b"1"]
