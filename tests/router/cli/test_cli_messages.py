"""`pub`, `sub`, `send`, `recv` at a running node: ids, lines, JSON, and every exit code."""

from __future__ import annotations

import base64
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rigs.commands import ROUTER, Run, RunningNode, start_node, stop_node
from rigs.patience import HANG_S

from router.cli.exits import Failure
from router.cli.input import BODY_BYTES_MAX, _check
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text, parse_key

NUMBERS = count()
WAITING = ("--timeout", str(HANG_S))


class Party(NamedTuple):
    """A group of its own, and the kept key of a member who is away."""

    group: str
    bob: str


@pytest.fixture
def party(at_node: Run) -> Party:
    number = next(NUMBERS)
    made = Party(f"group{number}", f"bob{number}")
    assert at_node("group", "new", made.group).exit_code == 0
    assert at_node("sub", made.group, "--as", made.bob, "--timeout", "0.01").exit_code == 5
    return made


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def listening(node: RunningNode, *args: str) -> Iterator[subprocess.Popen[str]]:
    """Run a `sub` or `recv` in a process of its own, and yield it when it has joined."""
    command = [*ROUTER, "--home", str(node.home), *args, "--verbose"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "joined" in line or "listening as" in line:
                break
        try:
            yield process
        finally:
            process.kill()


def test_what_was_published_is_printed_a_line_each(at_node: Run, party: Party) -> None:
    published = at_node("pub", party.group, "one", "two words")
    assert published.exit_code == 0, published.stderr
    assert [len(parse_key(line, "msg")) for line in published.stdout.splitlines()] == [32, 32]
    printed = at_node("sub", party.group, "--as", party.bob, "--count", "2", *WAITING)
    assert (printed.exit_code, printed.stdout) == (0, "one\ntwo words\n")


def test_json_has_the_contract_s_keys(at_node: Run, party: Party) -> None:
    published = records(at_node("pub", party.group, "-", "--json", stdin=b"hello\n" + b"\xff\x00").stdout)
    assert [one["custody"] for one in published] == [True, True]
    result = at_node("sub", party.group, "--as", party.bob, "--count", "2", *WAITING, "--json")
    first, second = records(result.stdout)
    assert [first["id"], second["id"]] == [one["id"] for one in published]
    assert (first["body"], first["size"], first["seq"]) == ("hello", 5, 0)
    assert base64.b64decode(second["body_base64"]) == b"\xff\x00"
    assert second["size"] == 2
    assert len(bytes.fromhex(first["group"])) == len(bytes.fromhex(first["sender"])) == 32
    assert first["received_at"] > 1_700_000_000


def test_standard_input_is_one_message_a_line(at_node: Run, party: Party) -> None:
    lines = [f"line {number}" for number in range(300)]
    published = at_node("pub", party.group, stdin="\n".join(lines) + "\n")
    assert len(set(published.stdout.splitlines())) == 300
    printed = at_node("sub", party.group, "--as", party.bob, "--count", "300", *WAITING)
    assert printed.stdout.splitlines() == lines


def test_raw_is_all_of_standard_input_as_it_is(at_node: Run, party: Party) -> None:
    body = "two\n\\lines\n"
    assert at_node("pub", party.group, "--raw", stdin=body).exit_code == 0
    printed = at_node("sub", party.group, "--raw", "--as", party.bob, "--count", "1", *WAITING, "--json")
    [found] = records(printed.stdout)
    assert (found["body"], found["sender"]) == (body, None)
    assert at_node("pub", party.group, "--raw", stdin=body).exit_code == 0
    printed = at_node("sub", party.group, "--raw", "--as", party.bob, "--count", "1", *WAITING)
    assert printed.stdout == f"{body}\n"


def test_a_file_is_one_sealed_message(at_node: Run, party: Party, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\n\x00two\nlines")
    published = at_node("pub", party.group, "--file", str(tmp_path / "picture"), "--file", "-", stdin=b"\xfe\n")
    assert (published.exit_code, len(published.stdout.splitlines())) == (0, 2), published.stderr
    printed = at_node("sub", party.group, "--as", party.bob, "--count", "2", *WAITING, "--json")
    found = [(base64.b64decode(one["body_base64"]), one["seq"]) for one in records(printed.stdout)]
    assert found == [(b"\x89PNG\n\x00two\nlines", 0), (b"\xfe\n", 1)]


def test_a_file_that_is_too_large_names_the_limit(at_node: Run, party: Party, tmp_path: Path) -> None:
    (tmp_path / "film").write_bytes(bytes(2 << 20))
    result = at_node("pub", party.group, "--file", str(tmp_path / "film"))
    assert result.exit_code == 4
    assert "takes 1052672, its limits.frame_bytes_max" in result.stderr
    with (tmp_path / "film").open("r+b") as film:
        film.truncate(BODY_BYTES_MAX + 1)
    result = at_node("pub", party.group, "--file", str(tmp_path / "film"))
    assert result.exit_code == 2
    assert (
        result.stderr == f"{tmp_path / 'film'} holds more than 64 MiB, the most that one message may hold: split it\n"
    )


def test_raw_in_a_sealed_group_is_said_once(at_node: Run, node: RunningNode, party: Party) -> None:
    assert at_node("pub", party.group, "--raw", "one", "two").exit_code == 0
    assert at_node("pub", party.group, "three").exit_code == 0
    printed = at_node("sub", party.group, "--as", party.bob, "--count", "1", *WAITING)
    assert printed.stdout == "three\n"
    [_, line] = printed.stderr.splitlines()  # below the line that it has joined
    assert f"given to nobody: it is not sealed (`router --home {node.home} pub --raw` sends such)" in line


@pytest.mark.parametrize("many", [1, 500])
def test_pub_says_what_was_not_sent_when_nobody_reads_the_ids(
    at_node: Run, node: RunningNode, party: Party, many: int
) -> None:
    command = [*ROUTER, "--home", str(node.home), "pub", party.group]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write("first\n")
        process.stdin.flush()
        wait_until(lambda: queued(at_node, party) == 1)
        process.stdin.write("more\n" * (many - 1))
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait(HANG_S) == 1
    rest = ", the rest was not sent" if many > 1 else ""
    there = queued(at_node, party)
    kept = "1 message is" if there == 1 else f"{there} messages are"
    assert said == f"standard output was closed: {kept} in custody{rest}\n"
    at_node("queue", "drop", party.bob)


def test_pub_says_how_far_it_came_when_its_node_goes(home: Path, router: Run) -> None:
    router("group", "new", "g")
    process, _ = start_node(home, "--verifiers", "0")
    assert router("sub", "g", "--as", "bob", "--timeout", "0.01").exit_code == 5
    command = [*ROUTER, "--home", str(home), "pub", "g"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as publisher:
        assert publisher.stdin is not None and publisher.stdout is not None and publisher.stderr is not None
        publisher.stdin.write("one\ntwo\n")
        publisher.stdin.flush()
        assert [publisher.stdout.readline()[:4] for _ in range(2)] == ["msg1", "msg1"]
        assert stop_node(process) == 0
        with suppress(BrokenPipeError):
            for _ in range(1000):
                publisher.stdin.write("more\n")
                publisher.stdin.flush()
                if publisher.poll() is not None:
                    break
        said = publisher.communicate(timeout=HANG_S)[1].splitlines()
    assert publisher.returncode == 3
    assert said[0].startswith("the node is away: ") and "--queue" in said[0]
    assert said[1:] == ["2 messages are in custody; whether the messages after them are is not known"]


def queued(at_node: Run, party: Party) -> int:
    rows = json.loads(at_node("queue", "--json").stdout)
    return sum(one["messages"] for one in rows if one["name"] == party.bob)


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < give_up_s


def test_as_signs_on_with_a_kept_key(at_node: Run, party: Party, node: RunningNode) -> None:
    at_node("pub", party.group, "mine", "--as", "alice")
    [found] = records(at_node("sub", party.group, "--as", party.bob, "--count", "1", *WAITING, "--json").stdout)
    assert (node.home / "keys/alice.key").exists()
    other = at_node("pub", party.group, "again", "--as", "alice", "--json")
    assert other.exit_code == 0
    [again] = records(at_node("sub", party.group, "--as", party.bob, "--count", "1", *WAITING, "--json").stdout)
    assert (again["sender"], again["seq"]) == (found["sender"], found["seq"] + 1)


def test_what_waits_is_in_the_queue_until_it_is_dropped(at_node: Run, party: Party) -> None:
    at_node("pub", party.group, "one", "two")
    [row] = [one for one in json.loads(at_node("queue", "--json").stdout) if one["name"] == party.bob]
    assert row.keys() >= {"recipient", "messages", "bytes", "oldest_s", "limit_messages", "limit_bytes"}
    assert row["messages"] == 2
    assert party.bob in at_node("queue").stdout
    assert "2 messages dropped" in at_node("queue", "drop", party.bob).stdout
    assert party.bob not in at_node("queue", "--json").stdout
    assert party.group in at_node("groups").stdout


def test_wait_shows_each_recipient(at_node: Run, party: Party) -> None:
    result = at_node("pub", party.group, "hello", "--wait", "--timeout", "0.3", "--json")
    assert result.exit_code == 5
    [found] = records(result.stdout)
    assert [one["state"] for one in found["recipients"]] == ["queued"] and found["sealed"] is True
    assert "the message has not reached all its recipients yet" in result.stderr
    at_node("queue", "drop", party.bob)


def test_a_unicast_is_delivered(at_node: Run, node: RunningNode) -> None:
    with listening(node, "recv", "--as", "carol", "--count", "1", *WAITING, "--json") as process:
        sent = at_node("send", "carol", "hello", "--wait", "--json")
        assert sent.exit_code == 0, sent.stderr
        [found] = records(process.communicate(timeout=HANG_S)[0])
    [told] = records(sent.stdout)
    assert told["recipients"][0]["state"] == "delivered" and told["sealed"] and found["sealed"]
    assert (found["id"], found["body"]) == (told["id"], "hello")
    assert found["source"] == found["sender"]


def test_sub_since_says_that_a_node_without_the_service_keeps_no_history(at_node: Run, party: Party) -> None:
    done = at_node("sub", party.group, "--since", "1h")
    assert done.exit_code == 2 and 'add "services.pubsub" to `services`' in done.stderr, done.stderr


def test_sub_ends_cleanly_on_ctrl_c(at_node: Run, node: RunningNode, party: Party) -> None:
    with listening(node, "sub", party.group) as process:
        at_node("pub", party.group, "hello")
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"  # printed at once, though it is a pipe
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_S)
        assert process.returncode == 0
    at_node("queue", "drop", party.bob)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_sub_that_is_interrupted_before_its_count_is_code_130(
    at_node: Run, node: RunningNode, party: Party, number: signal.Signals
) -> None:
    with listening(node, "sub", party.group, "--count", "2") as process:
        at_node("pub", party.group, "hello")
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"
        process.send_signal(number)
        said = process.communicate(timeout=HANG_S)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted; 1 of 2 messages came"


@pytest.mark.parametrize("more", [(), ("--file", "-")])
def test_pub_ends_cleanly_on_ctrl_c(node: RunningNode, at_node: Run, party: Party, more: tuple[str, ...]) -> None:
    command = [*ROUTER, "--home", str(node.home), "pub", party.group, *more, "--verbose"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(json.loads(at_node("peers", "--json").stdout)) > 0)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=HANG_S)
    told = "interrupted; 0 messages are in custody; whether the messages after them are is not known\n"
    assert (process.returncode, *said) == (130, "", told)


BEHIND_A_SHELL = ("env", "--ignore-signal=INT")
"""What a shell without job control does to a command behind `&`."""


@pytest.mark.parametrize(
    ("number", "before"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGHUP, ()),
        (signal.SIGTERM, BEHIND_A_SHELL),
        (signal.SIGHUP, BEHIND_A_SHELL),
    ],
)
def test_pub_that_is_ended_says_how_many_messages_are_in_custody(
    node: RunningNode, party: Party, number: signal.Signals, before: tuple[str, ...]
) -> None:
    command, pipe = [*before, *ROUTER, "--home", str(node.home), "pub", party.group], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in ("one", "two"):
            print(line, file=process.stdin, flush=True)
            assert process.stdout.readline().startswith("msg1")
        process.send_signal(number)
        said = process.communicate(timeout=HANG_S)[1]
    assert process.returncode == 130
    assert "interrupted; 2 messages are in custody; whether the messages after them are is not known" in said


TWICE = """
import signal
from router.client.link import ClientLink
say_goodbye = ClientLink._say_goodbye
async def say_goodbye_interrupted(link):
    signal.raise_signal(signal.SIGINT)
    await say_goodbye(link)
ClientLink._say_goodbye = say_goodbye_interrupted
from router.cli import main
main()
"""


def test_a_second_ctrl_c_while_pub_signs_off_ends_it_cleanly(node: RunningNode, party: Party) -> None:
    """`timeout` sends two signals in this way, to the process and then to its group."""
    command = [sys.executable, "-c", TWICE, "--home", str(node.home), "pub", party.group, "--wait"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        print("hello", file=process.stdin, flush=True)
        assert process.stdout.readline().startswith("msg1")
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=HANG_S)
    assert (process.returncode, *said) == (130, "", "\n")


def test_sub_says_that_its_node_is_away_and_back(home: Path, router: Run) -> None:
    router("group", "new", "g")
    process, _ = start_node(home, "--verifiers", "0")
    with listening(RunningNode(home, {}), "sub", "g", "--count", "1") as subscriber:
        assert subscriber.stderr is not None
        assert stop_node(process) == 0
        said = next(line for line in subscriber.stderr if not line.startswith("joined") and " INFO " not in line)
        assert said.startswith("the node is away, waiting for it: ")  # a dial may have met the socket as it closed
        process, _ = start_node(home, "--verifiers", "0")
        assert "the node is back\n" in subscriber.stderr
        wait_until(lambda: router("groups", "--json").stdout != "[]\n")
        assert router("pub", "g", "hello").exit_code == 0
        assert subscriber.communicate(timeout=HANG_S)[0] == "hello\n"
    assert stop_node(process) == 0


def test_a_journal_prints_nothing_twice(at_node: Run, party: Party, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal")
    at_node("pub", party.group, "one")
    args = ("sub", party.group, "--as", party.bob, "--journal", journal, "--count", "1")
    assert at_node(*args, *WAITING).stdout == "one\n"
    assert at_node(*args, "--timeout", "0.3").exit_code == 5
    assert (tmp_path / "journal").exists()


@pytest.mark.parametrize(
    ("args", "reason"),
    [(("--ttl", "0"), "recipient-offline-ttl0"), (("--expiry", "20000"), "expiry-too-far")],
)
def test_refused_is_code_4_with_the_reason(at_node: Run, party: Party, args: tuple[str, ...], reason: str) -> None:
    result = at_node("pub", party.group, "hello", "--json", *args)
    assert result.exit_code == 4, result.stderr
    [found] = records(result.stdout)
    assert (found["custody"], found["reason"]) == (False, reason)
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_many_refused_are_summed_up(at_node: Run) -> None:
    at_node("group", "new", "nobody")
    result = at_node("pub", "nobody", *map(str, range(99)))
    assert result.exit_code == 4
    *refusals, remedy, summed_up = result.stderr.splitlines()
    assert summed_up == "99 of 99 messages were refused; --json names each"
    assert refusals and len(refusals) < 99
    assert "on a local network subscribe to it here too" in remedy


def test_a_unicast_to_nobody_is_refused(at_node: Run) -> None:
    result = at_node("send", SigningKey(b"n" * 32).public.hex(), "hello")
    assert result.exit_code == 4
    assert "no-route" in result.stderr and "its app signs on once with a kept key" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pub", "nogroup", "x"), 'there is no group "nogroup"'),
        (("pub", "group0", "x", "--ttl", "-1"), "--ttl"),
        (("pub", "group0", "x", "--timeout", "1"), "give --wait too"),
        (("pub", "group0", "x", "--as", "node"), "router's own key"),
        (("pub", key_text("addr", SigningKey(b"a" * 32).public), "x"), "it is an address"),
        (("pub", key_text("group", SigningKey(b"a" * 32).public), "x"), "for reading only"),
        (("sub",), "Missing argument"),
        (("sub", "group0", "--count", "0"), "--count"),
        (("send", "nobody", "x"), "neither a name known here"),
    ],
)
def test_wrong_usage(at_node: Run, args: tuple[str, ...], said: str) -> None:
    result = at_node(*args)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 2


@pytest.mark.parametrize("more", ["", " --file -"])
def test_without_standard_input_pub_says_so(node: RunningNode, party: Party, more: str) -> None:
    command = f"{shlex.join(ROUTER)} --home {node.home} pub {party.group}{more} <&-"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    said = "standard input is closed; give messages as BODY or with --file PATH\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", said)


def test_pub_counts_what_it_could_not_print(node: RunningNode, party: Party) -> None:
    command = [*ROUTER, "--home", str(node.home), "pub", party.group, "one"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "standard output cannot be written (No space left on device): 1 message is in custody\n"
    assert (ran.returncode, ran.stderr) == (1, said)


def test_a_router_takes_no_text(router: Run) -> None:
    core = SigningKey(b"c" * 32).public.hex()
    router("peer", "add", core, "--name", "core")
    result = router("send", "core", "hi")
    assert result.exit_code == 2
    assert "core is a neighbour's router" in result.stderr


def test_a_read_only_member_cannot_publish(at_node: Run, party: Party) -> None:
    link = at_node("group", "share", party.group, "--read-only").stdout.strip()
    result = at_node("pub", link, "hello")
    assert result.exit_code == 2
    assert "for reading only" in result.stderr


@pytest.mark.parametrize("args", [("pub", "g", "x"), ("sub", "g"), ("recv",)])
def test_without_a_node_it_is_code_3(router: Run, args: tuple[str, ...]) -> None:
    router("group", "new", "g")
    result = router(*args)
    assert result.exit_code == 3
    assert " serve`" in result.stderr


def test_queue_waits_for_the_node(router: Run, home: Path) -> None:
    router("group", "new", "g")
    process, _ = start_node(home, "--verifiers", "0")
    assert router("sub", "g", "--as", "bob", "--timeout", "0.01").exit_code == 5
    assert stop_node(process) == 0
    here = [*ROUTER, "--home", str(home)]
    reading = [*here, "sub", "g", "--as", "bob", "--queue", "--count", "1", *WAITING]
    with (
        subprocess.Popen([*here, "pub", "g", "patience", "--queue"], stdout=subprocess.PIPE, text=True) as waiting,
        subprocess.Popen(reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as subscriber,
    ):
        assert subscriber.stderr is not None
        assert "the node is away, waiting for it" in subscriber.stderr.readline()
        process, _ = start_node(home, "--verifiers", "0")
        assert waiting.communicate(timeout=HANG_S)[0].startswith("msg1")
        assert subscriber.communicate(timeout=HANG_S)[0] == "patience\n"
    assert (waiting.returncode, subscriber.returncode) == (0, 0)
    assert stop_node(process) == 0


def test_a_body_has_a_limit() -> None:
    _check(bytes(BODY_BYTES_MAX))
    with pytest.raises(Failure, match="more than 64 MiB"):
        _check(bytes(BODY_BYTES_MAX + 1))


def test_in_a_pipe_a_message_is_one_line_whatever_its_body(at_node: Run, party: Party, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"two\nlines\xff")
    assert at_node("pub", party.group, "--file", str(path)).exit_code == 0
    printed = at_node("sub", party.group, "--as", party.bob, "--count", "1", *WAITING)
    assert printed.stdout_bytes == b"two\\nlines\xff\n"
