"""Ctrl-C at each place of a program at work: it ends quietly, has lost nothing, and is given nothing again.

A run without Ctrl-C lists the places (`rigs.interrupted`). The quick tests try some of them, `make long` all.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from rigs.interrupted import Place
from rigs.patience import HANG_S
from rigs.warm_start import WarmStart, execute

import router
from router.actors.process import program

TREE = Path(__file__).parents[2]
ROUTER = tuple(program("router"))
GROUP = "friends"
READERS = {
    "chat": ["chat", GROUP, "Ann"],
    "blocking": ["rigs.blocking_reader", GROUP, "bob", "{last}"],
    "sub": ["router", "sub", GROUP, "--as", "carol", "--journal", "{home}/carol.journal"],
}
NAMES = "chat-Ann", "bob", "carol"
SOME = 3
"""How many places of each reader the quick tests try besides."""
SERVED = 300
"""How many places of a node are tried: it passes thousands."""
THE_END = "BlockingNode.__exit__"
"""Where a connection without `async` is left; the quick tests try all places there."""
BEFORE_IT_BEGINS = {"Home.__init__", "Home.chosen", "connect", "default_home", "load_by_name.<locals>.load"}
"""What runs of the router without protection: it reads where the home is, and loads public names."""
LOOKED_AT = {"Node.is_up", "ClientLink.is_up"}
"""What an app looks at, which changes nothing and so may be interrupted anywhere."""


class Played(NamedTuple):
    """A program that has ended: its exit code, what it showed, and its standard error. `told`: where Ctrl-C came."""

    told: str
    code: int
    shown: list[str]
    said: str


class Stage:
    """A node, a speaker in a group there, and programs that read or speak."""

    def __init__(self, home: Path, folder: Path, speaker: router.BlockingNode) -> None:
        self.home = home
        self.folder = folder
        path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._env = {**os.environ, "ROUTER_HOME": str(home), "PYTHONPATH": os.pathsep.join(path)}
        self._group = speaker.group(GROUP)
        self._numbers = count()

    def speak(self, text: str) -> None:
        self._group.publish(text.encode())

    def read(self, told: str, reader: str) -> tuple[list[str], Played]:
        """Say three things, and run a program that shows what is said; return both."""
        said = [f"{word} {next(self._numbers)}" for word in ("one", "two", "three")]
        for text in said:
            self.speak(text)
        command = [text.format(last=said[-1], home=self.home) for text in READERS[reader]]
        return said, self.play(told, command, lambda text: text == said[-1], endless=reader == "sub")

    def play(
        self, told: str, command: Sequence[str], is_last: Callable[[str], bool], *, endless: bool = False
    ) -> Played:
        """Run a program; at the line that is the last wanted, end its input, or an endless one by Ctrl-C."""
        whole = [sys.executable, "-P", "-m", "rigs.interrupted", told, *command]
        pipe = subprocess.PIPE
        with subprocess.Popen(whole, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self._env) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            with killed_if_hung(process):
                shown = list[str]()
                for line in process.stdout:
                    shown.append(line.rstrip("\n"))
                    if is_last(shown[-1]):
                        process.send_signal(signal.SIGINT) if endless else process.stdin.close()
                return Played(told, process.wait(), shown, process.stderr.read())

    def places(self, name: str, reader: str) -> list[Place]:
        """Return the places that a reader passes."""
        file = self.folder / name
        _, played = self.read(str(file), reader)
        assert (played.code, played.said) == (0, ""), played
        return listed(file)


def listed(file: Path) -> list[Place]:
    """Return the places in a file, but for those in Python's own locks, which a Ctrl-C may break, and in sockets: trio
    closes its own at its end, and Python then says that it cannot write the signal there."""
    found = [Place.read(line) for line in file.read_text().splitlines()]
    return [one for one in found if one.file not in (threading.__file__, socket.__file__)]


@contextmanager
def killed_if_hung(process: subprocess.Popen[str]) -> Iterator[None]:
    timer = threading.Timer(HANG_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("folder")
    for name, place in (("rigs", "tests/rigs"), ("chat.py", "examples/chat.py")):
        (folder / name).symlink_to(TREE / place)
    warm = WarmStart()
    if subprocess._fork_exec is execute:  # type: ignore[attr-defined]  # in `make long`: each run would take a second
        warm.install()
    subprocess.run([*ROUTER, "--home", home, "group", "new", GROUP], check=True, capture_output=True)
    command = [*ROUTER, "--home", str(home), "serve", "--verifiers", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None and node.stdout.readline()
        for name in NAMES:
            with router.connect_blocking(home=home, as_name=name) as reader:
                reader.join(GROUP)
        with router.connect_blocking(home=home, as_name="speaker") as speaker:
            yield Stage(home, folder, speaker)
        node.terminate()
    warm.close()


def in_some_order(places: list[Place], seed: str) -> list[Place]:
    """Return the places in an order that the seed fixes; each at one of the times at which it is passed."""
    chance = Random(seed)
    found = [one._replace(times=chance.choice((1, one.times, chance.randint(1, one.times)))) for one in places]
    chance.shuffle(found)
    return found


def check_readings(stage: Stage, reader: str, places: Sequence[Place]) -> None:
    """Interrupt the reader at each of these places, then let it read the rest."""
    said, runs = list[str](), list[Played]()
    for told in (*map(str, places), str(stage.folder / "rest")):
        new, played = stage.read(told, reader)
        assert played.code in ((0, 130) if reader == "sub" else (0,)) and played.said.strip() == "", played
        said += new
        runs.append(played)
    shown = Counter(text for run in runs for text in run.shown)
    assert not [text for text in said if not shown[text]], "lost"
    in_hand = {run.shown[-1] for run in runs if run.shown}  # its loop had not gone on
    assert not [text for text in said if shown[text] > 1 and text not in in_hand], "shown twice"


def check_speaking(stage: Stage) -> None:
    """Interrupt `router pub` at each place: what it says is in custody comes."""
    command = ["router", "pub", GROUP, "one", "two", "three"]
    listing = stage.folder / "pub"
    with router.connect_blocking(home=stage.home, as_name="witness") as witness:
        messages = iter(witness.join(GROUP))
        played = stage.play(str(listing), command, lambda text: False)
        assert (played.code, played.said) == (0, ""), played
        kept = played.shown
        for place in in_some_order(listed(listing), "pub"):
            played = stage.play(str(place), command, lambda text: False)
            assert played.code in (0, 130), played
            assert not played.said.strip() or played.said.startswith("interrupted; "), played
            kept += played.shown
        stage.speak("the end")
        came = list[str]()
        while (message := messages.next(HANG_S)) is not None and message.body != b"the end":
            came.append(router.key_text("msg", message.id))
        assert set(kept) <= set(came) and len(came) == len(set(came))


def check_serving(stage: Stage) -> None:
    """Interrupt a node at many places of its life: it ends, and starts the next time."""
    home, listing = str(stage.folder / "home"), stage.folder / "serve"
    subprocess.run([*ROUTER, "--home", home, "init"], check=True, capture_output=True)
    command = ["router", "--home", home, "serve", "--verifiers", "0", "--json"]

    def serve(told: str) -> None:
        played = stage.play(told, command, lambda text: True, endless=True)
        assert (played.code, played.said) == (0, ""), played

    serve(str(listing))
    for place in in_some_order(listed(listing), "serve")[:SERVED]:
        serve(str(place))


@pytest.mark.parametrize("reader", ["chat", "blocking"])
def test_readers_end_with_nothing_lost_where_ctrl_c_comes(stage: Stage, reader: str) -> None:
    places = in_some_order(stage.places("some", reader), reader)
    ends = [one for one in places if one.function == THE_END]
    check_readings(stage, reader, [*ends, *places[:SOME]])


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_readers_end_with_nothing_lost_wherever_ctrl_c_comes(stage: Stage, reader: str) -> None:
    check_readings(stage, reader, in_some_order(stage.places("all", reader), reader))


@pytest.mark.long
def test_what_pub_says_is_in_custody_comes_wherever_ctrl_c_comes(stage: Stage) -> None:
    check_speaking(stage)


@pytest.mark.long
def test_a_node_ends_wherever_ctrl_c_comes_and_starts_again(stage: Stage) -> None:
    check_serving(stage)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="which code runs where is counted for Python 3.11")
def test_ctrl_c_interrupts_no_step_of_the_client(stage: Stage) -> None:
    tree = [str(TREE / part) for part in ("router", "transports")]
    open_ones = [one for one in stage.places("census", "chat") if not one.is_protected]
    ours = {one.function for one in open_ones if one.file.startswith(tuple(tree))}
    assert ours <= BEFORE_IT_BEGINS | LOOKED_AT, sorted(ours)
