"""The same API from plain threads: results, loops, timeouts and errors come through."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.router_end import RouterEnd
from samples.apps import FAMILY, OPEN, raw_wires

import router
from router import BlockingNode, ClientError, NodeUnavailable, Refused
from router.client.portal import BlockingLoop
from router.core.wire import link_items as link
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.reasons import Reason


class ThreadedEnd:
    """A router's end in a thread of its own, on a Unix socket."""

    def __init__(self, path: Path) -> None:
        self.end = RouterEnd(f"unix://{path}/s")
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,))

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.end.run)
            self._ready.set()

    def __enter__(self) -> ThreadedEnd:
        self._thread.start()
        assert self._ready.wait(HANG_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.end.stop)
        self._thread.join()

    def run(self, act: object, *args: object) -> None:
        trio.from_thread.run_sync(act, *args, trio_token=self._token)  # type: ignore[arg-type]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds, because the app's last bytes arrive after its call has returned."""
        trio.from_thread.run(self._until, holds, trio_token=self._token)

    async def _until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(HANG_S):
            while not holds():
                await trio.sleep(0.01)


@pytest.fixture
def node_end(tmp_path: Path) -> Iterator[ThreadedEnd]:
    with ThreadedEnd(tmp_path) as made:
        yield made


@pytest.fixture
def node(node_end: ThreadedEnd) -> Iterator[BlockingNode]:
    with router.connect_blocking(url=node_end.end.url, outcomes=True) as made:
        yield made


def test_publish_and_read(node_end: ThreadedEnd, node: BlockingNode) -> None:
    with router.connect_blocking(url=node_end.end.url) as bob:
        his = bob.join(FAMILY)
        hers = node.group(FAMILY.text())
        ids = [hers.publish(b"one"), *hers.publish_many([b"two", b"three"])]
        with hers.publisher(in_flight=2) as publisher:
            ids += [publisher.publish(b"%d" % number) for number in range(5)]
        assert repr(publisher) == "<publisher: 5 settled, 0 of at most 2 in flight>"
        got = []
        for message in his:
            got.append(message.id)
            assert message.sender == node.key
            message.settle()
            if len(got) == len(ids):
                break
        assert got == ids
        assert his.messages().next(timeout_s=0) is None
        assert repr(his) == repr(bob._node.group(FAMILY))
        his.leave()
    assert repr(node).endswith("up>") and node.is_up and node.router == node_end.end.key.public


def test_a_loop_over_everything_and_unicasts(node_end: ThreadedEnd, node: BlockingNode) -> None:
    group = node.join(OPEN)
    for wire in raw_wires(2):
        node_end.run(node_end.end.publish, wire)
    everything = iter(node)
    assert [next(everything).body, next(everything).body] == [b"0", b"1"]
    id = node.send(node.key, b"to myself")
    message = next(node.unicasts())
    assert (message.id, message.source) == (id, node.key)
    node.leave(group)


def test_errors_come_through(node_end: ThreadedEnd, node: BlockingNode) -> None:
    node_end.end.refuse = lambda message: Reason.BLOCKED
    with pytest.raises(Refused, match="blocked"):
        node.send(node.key, b"x")
    node_end.end.join_answer = False
    with pytest.raises(router.JoinRefused):
        node.join(OPEN)
    with pytest.raises(NodeUnavailable, match="no node is listening"), router.connect_blocking(url="unix:///nowhere/s"):
        raise AssertionError
    with pytest.raises(router.ClientError, match="not both"), router.connect_blocking(key=OPEN, as_name="x"):
        raise AssertionError


def test_an_error_in_the_block_comes_out_as_it_is(node_end: ThreadedEnd) -> None:
    with pytest.raises(KeyError), router.connect_blocking(url=node_end.end.url):
        raise KeyError("mine")


def test_timeouts(node_end: ThreadedEnd, node: BlockingNode) -> None:
    node_end.end.holding = True
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        node.send(node.key, b"x", timeout_s=0.01)
    with pytest.raises(TimeoutError), node.group(OPEN).publisher(in_flight=1) as publisher:
        publisher.publish(b"1")
        publisher.publish(b"2", timeout_s=0.01)
    with pytest.raises(TimeoutError):
        publisher.flush(timeout_s=0.01)


def test_outcomes(node_end: ThreadedEnd, node: BlockingNode) -> None:
    outcomes = node.send(SigningKey(b"x" * 32).public, b"x", wait=True, plain=True)
    assert not outcomes.complete and [one.state for one in outcomes.recipients] == ["queued"]
    done = link.Outcome(outcomes.id, (link.RecipientOutcome(SigningKey(b"x" * 32).public, "delivered"),))
    node_end.run(node_end.end.link_to(node.key).say, done)
    assert [one.state for one in outcomes] == ["queued", "delivered"]
    assert [one.state for one in outcomes.final(timeout_s=HANG_S)] == ["delivered"] and outcomes.complete
    assert outcomes.id.hex()[:12] in repr(outcomes)
    group = node.join(OPEN)
    with router.connect_blocking(url=node_end.end.url) as bob:
        bob.join(OPEN)
        assert [one.state for one in group.publish(b"x", wait=True).recipients] == ["queued"]


def test_feeds_and_questions(node_end: ThreadedEnd, node: BlockingNode) -> None:
    assert node.ask("status") == b'{"asked": "status "}'
    report = Report(MessageId(bytes(32)), node.key, "expired", Reason.TTL_EXPIRED, 1)
    node_end.run(node_end.end.link_to(node.key).tell, report)
    assert next(iter(node.reports)) == report
    assert (len(node.problems), node.missed.total, node.problems.unread()) == (0, 0, [])
    assert repr(node.problems) == "<feed: 0 unread of 0>"


def test_after_the_block(node_end: ThreadedEnd) -> None:
    with router.connect_blocking(url=node_end.end.url) as node:
        group = node.join(OPEN)
        loop = group.messages()
        reader = threading.Thread(target=list, args=(loop,))
        reader.start()
    reader.join(HANG_S)
    assert not reader.is_alive()
    with pytest.raises(NodeUnavailable, match="left"):
        group.publish(b"x")
    assert repr(router.connect_blocking()) == "<node, not yet connected>"


def test_a_connection_is_one_with_block(node_end: ThreadedEnd) -> None:
    made = router.connect_blocking(url=node_end.end.url)
    with pytest.raises(ClientError, match="has not begun"):
        made.join(OPEN)
    with made:
        made.join(FAMILY)
        made.leave(FAMILY.text())
        with pytest.raises(ClientError, match="call connect_blocking"):
            made.__enter__()
        with pytest.raises(ClientError, match="publisher is used in a `with` block"):
            made.group(OPEN).publisher().publish(b"x")


def _refused(node_end: ThreadedEnd, times: int) -> bool:
    return len(node_end.end.refusals) == times


def test_an_error_that_leaves_the_block_is_an_attempt_at_the_message_in_hand(
    node_end: ThreadedEnd, tmp_path: Path
) -> None:
    key = SigningKey(b"p" * 32)
    for run in range(2):
        with (
            pytest.raises(ZeroDivisionError),
            router.connect_blocking(url=node_end.end.url, key=key, home=tmp_path, attempts_max=2) as made,
        ):
            messages = iter(made.join(OPEN))
            if not run:
                node_end.run(node_end.end.publish, raw_wires(1)[0])
            next(messages)
            _ = 1 // 0
        node_end.until(partial(_refused, node_end, run))
        assert [reason for _, reason in node_end.end.refusals] == [Reason.PEER_REFUSED] * run


class Interrupted(AsyncIterator[int]):
    """Numbers, of which Ctrl-C comes just before the first; `waits`: that one does not come."""

    def __init__(self, *, waits: bool = False) -> None:
        self._waits = waits
        self._given = 0
        self.is_cancelled = False

    async def __anext__(self) -> int:
        self._given += 1
        if self._given == 1:
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await trio.sleep(HANG_S if self._waits else 0)
            except trio.Cancelled:
                self.is_cancelled = True
                raise
        return self._given


@pytest.mark.parametrize("waits", [False, True])
def test_ctrl_c_ends_a_call_and_what_came_meanwhile_is_the_next_item(node: BlockingNode, waits: bool) -> None:
    numbers = Interrupted(waits=waits)
    loop = BlockingLoop(node._portal, numbers)
    with pytest.raises(KeyboardInterrupt):
        loop.next()
    got = [loop.next(), loop.next()]
    assert got == ([2, 3] if numbers.is_cancelled else [1, 2])
    assert numbers.is_cancelled or not waits


def test_ctrl_c_while_it_connects_leaves_no_connection_behind(node_end: ThreadedEnd) -> None:
    made = router.connect_blocking(
        url="unix:///nowhere/s", when_down="queue", on_away=lambda said: os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt), made:
        made.join(OPEN)
    assert not made._thread.is_alive()
