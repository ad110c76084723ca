"""The examples do what they say, each as a process on a real node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from rigs.patience import HANG_S

import router
from router.actors.process import program
from router.core.wire.text import parse_key

EXAMPLES = Path(__file__).parents[1] / "examples"
ROUTER = tuple(program("router"))
GROUP = "friends"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the home of a running node that has a group."""
    home = tmp_path_factory.mktemp("examples") / "home"
    subprocess.run([*ROUTER, "--home", home, "group", "new", GROUP], check=True, stdout=subprocess.DEVNULL)
    with running([*ROUTER, "--home", str(home), "serve", "--verifiers", "0", "--json"]) as node:
        line(node)
        yield home
        node.terminate()
        assert node.wait(HANG_S) == 0


@contextmanager
def running(command: list[str], home: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Yield a started process, and kill it afterwards if it still runs."""
    env = {**os.environ, "ROUTER_HOME": str(home)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def example(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def type_in(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def test_a_chat_between_two(home: Path) -> None:
    with ExitStack() as stack:
        ann, bob = (stack.enter_context(running(example("chat", GROUP, name), home)) for name in ("Ann", "Bob"))
        for one in (ann, bob):
            assert line(one).startswith("You are in friends")
        type_in(ann, "hello")
        assert line(bob) == "Ann: hello"
        type_in(bob, "hello yourself")
        assert line(ann) == "Bob: hello yourself"
        for one in (ann, bob):
            assert one.communicate(timeout=HANG_S)[0] == ""
            assert one.returncode == 0


@pytest.mark.long
def test_what_is_typed_while_the_node_is_away_is_said_when_it_is_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    serve = [*ROUTER, "--home", str(home), "serve", "--verifiers", "0", "--json"]
    subprocess.run([*ROUTER, "--home", home, "group", "new", GROUP], check=True, stdout=subprocess.DEVNULL)
    with ExitStack() as stack:
        node = stack.enter_context(running(serve))
        line(node)
        ann = stack.enter_context(running(example("chat", GROUP, "Ann"), home))
        with router.connect_blocking(home=home, as_name="reader") as reader:
            reader.join(GROUP)
        assert line(ann).startswith("You are in friends")
        node.terminate()
        assert node.wait(HANG_S) == 0
        type_in(ann, "is anybody there?")
        again = stack.enter_context(running(serve))
        line(again)
        with router.connect_blocking(home=home, as_name="reader") as reader:
            message = iter(reader.join(GROUP)).next(HANG_S)
        assert message is not None and message.body == b"Ann: is anybody there?"
        again.terminate()
        assert again.wait(HANG_S) == 0


def test_a_blocking_publisher(home: Path) -> None:
    with router.connect_blocking(home=home) as node:
        messages = iter(node.join(GROUP))
        with running(example("blocking_publisher", GROUP), home) as publisher:
            printed, _ = publisher.communicate("one\ntwo\nthree\n", timeout=HANG_S)
        received = [messages.next(HANG_S) for _ in range(3)]
        assert [one and one.body for one in received] == [b"one", b"two", b"three"]
        assert [one and router.key_text("msg", one.id) for one in received] == printed.split()
        assert publisher.returncode == 0


def test_a_service_in_its_own_process(home: Path) -> None:
    with running(example("service_in_own_process"), home) as shouting:
        address = line(shouting)
        with router.connect_blocking(home=home) as node:
            node.send(address, b"hello")
            answer = node.unicasts().next(HANG_S)
            assert answer is not None and answer.body == b"HELLO"
            assert answer.source == parse_key(address, "addr")


@pytest.mark.parametrize("name", ["chat", "service_in_own_process"])
def test_ctrl_c_ends_them_quietly(name: str, home: Path) -> None:
    command = example(name, *[GROUP, "Ann"] * (name == "chat"))
    with running(command, home) as process:
        assert line(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S) == 0


def test_a_chat_whose_name_is_taken_ends_with_a_sentence(home: Path) -> None:
    command = example("chat", GROUP, "Zoe")
    env = {**os.environ, "ROUTER_HOME": str(home)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as chat:
        assert line(chat)
        with router.connect_blocking(home=home, as_name="chat-Zoe"):
            assert chat.wait(HANG_S) == 1 and chat.stderr is not None
            assert "another process has signed on with the same key" in (said := chat.stderr.read())
            assert "Traceback" not in said and len(said.splitlines()) == 1


@pytest.mark.parametrize("name", ["chat", "blocking_publisher"])
def test_without_a_node_they_say_so(name: str, tmp_path: Path) -> None:
    command = example(name, GROUP, *["Ann"] * (name == "chat"))
    env = {**os.environ, "ROUTER_HOME": str(tmp_path / "nowhere")}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, timeout=HANG_S)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "router serve" in done.stderr


def test_ctrl_c_ends_a_service_apart_without_a_word(tmp_path: Path) -> None:
    home = tmp_path / "home"
    subprocess.run([*ROUTER, "--home", home, "init"], check=True, stdout=subprocess.DEVNULL)
    (home / "router.toml").write_text('[node]\nservices = ["services.echo"]\n')
    command = [sys.executable, "-m", "router.service.apart", str(home), "echo"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not (home / "keys" / "service-echo.key").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANG_S)[1] == ""
    assert process.returncode in (0, -signal.SIGINT)  # the latter where it does not run yet
