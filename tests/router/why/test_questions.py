"""Questions about messages on a running router: what changes while the log is read, who is asked, and the limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest
import trio
from samples.logs import KEY
from samples.stores import WALL_S, parcel
from trio.testing import MockClock, wait_all_tasks_blocked

from router.core.log.events import Accepted, Outward
from router.core.routing.directory import Directory, Neighbour
from router.core.routing.effects import Changes, Finished, Now, SendOwn
from router.core.routing.limits import Limits as CoreLimits
from router.core.routing.recovered import Recovered
from router.core.routing.router import Router
from router.core.why.report import Outcome, Report, encode_report
from router.core.wire.admin import Answer, Inquiry, decode_inquiry
from router.core.wire.link_items import Hello
from router.core.wire.message import Unicast, open_message
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.why.questions import (
    ASKED_MAX,
    BUSY,
    CHANGING,
    DAMAGED,
    DEPTH_MAX,
    LOOKS_MAX,
    NO_ANSWER,
    NOT_ASKED,
    NOT_CONNECTED,
    NOT_PERMITTED,
    NOT_THE_SERVICE_S,
    PATIENCE_S,
    STORE_DAMAGED,
    WAITING_MAX,
    WHOLE_ID,
    Fates,
)

APP, SECOND_APP, ASKER_LINK, FIRST_LINK = 1, 2, 3, 10
OWNER, ASKER, SIGNER = (bytes([number]) * 32 for number in (250, 251, 252))
RECIPIENTS = [bytes([number]) * 32 for number in range(1, ASKED_MAX + 3)]
HELLO = Hello((1,), "router", bytes(8), True, 1 << 20, 4096, 1 << 20, (), bytes(16))
S = 10**9


class Here:
    """A router, its store and its log. `between` waits for `cycle`; `told`: what was answered, by link; `asked`: what
    was asked of others."""

    def __init__(self, path: Path, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.store = Store(path / "store", StoreLimits(synced=False), bytes(16))
        self.store.recover(KEY.public)
        directory = Directory(KEY.public, accept_strangers=True)
        directory.replace_neighbours([Neighbour(ASKER, "asker", frozenset({"why"}))])
        self.router = Router(KEY, directory, CoreLimits(), Recovered(), self.now())
        self.segments = Segments(path / "log", KEY, LogLimits(segment_bytes=1))
        self.book = Logbook(self.segments, self.store, 1e9, 1 << 40)
        self.fates = Fates(self.book, dict, 86_400)
        self.fates.attach(self)
        self.told: dict[int, list[dict[str, Any]]] = {}
        self.asked: list[tuple[int, Inquiry]] = []
        self.identity = ""
        self._acts: list[Callable[[Now], None]] = []
        self._has_acts = trio.Event()

    def now(self) -> Now:
        return Now(WALL_S * S, S)

    def between(self, act: Callable[[Now], None]) -> None:
        self._acts.append(act)
        self._has_acts.set()

    async def cycle(self, acts: int = 1) -> None:
        """Until so many acts have been done."""
        while acts > 0:
            await self.until_searched()
            doing, self._acts, self._has_acts = self._acts, [], trio.Event()
            for act in doing:
                act(self.now())
            acts -= len(doing)
            self.hear()

    def hear(self) -> None:
        for effect in self.router.take(self.now()).effects:
            if isinstance(effect, SendOwn):
                message = open_message(effect.wire)
                assert isinstance(message, Unicast)
                said = decode_inquiry(message.body)
                if isinstance(said, Answer):
                    self.told.setdefault(effect.link, []).append(json.loads(said.text))
                else:
                    self.asked.append((effect.link, said))

    async def until_searched(self) -> None:
        with trio.fail_after(60):
            await self._has_acts.wait()

    async def answer(self, link: int = APP) -> dict[str, Any]:
        before = len(self.told.get(link, ()))
        while len(self.told.get(link, ())) == before:
            await self.cycle()
        return self.told[link][-1]

    def link(self, number: int, key: bytes) -> None:
        assert self.router.link_up(number, key, False, HELLO, self.now()) is not None
        self.router.take(self.now())

    def commit(self, changes: Changes) -> None:
        applied = self.store.apply(changes, WALL_S)
        self.store.commit()
        self.book.committed(applied.log_value, self.now())

    def accept(self, recipients: list[bytes], ttl_s: int = 60) -> None:
        """The message with the arrival number 1."""
        one = replace(parcel(Random(1), 1, WALL_S, count=1), recipients=tuple(recipients), neighbour=ASKER)
        word, expiry = pack("<I", ttl_s), pack("<I", one.expiries[0])
        event = Accepted(
            WALL_S * S, 1, 1, 1, SIGNER, None, ASKER, 1, one.recipients, one.ids, word, word, expiry
        )  # fmt: skip
        self.commit(Changes(parcels=[one], events=[event]))
        self.identity = one.ids.hex()
        self.size = one.size(0, 1)

    def end(self, recipient: bytes, event: str = "delivered") -> None:
        said = Outward(WALL_S * S, 6, event, recipient, 1, ((1, 1),), None, 0, 1, 0, 1)
        self.commit(Changes(finished=[Finished(recipient, 1, 0, 1, self.size)], events=[said]))

    def lose(self, recipient: bytes) -> None:
        """A fault: it leaves the queue, and no event says so."""
        said = Outward(WALL_S * S, 6, "delivered", OWNER, 1, ((9, 1),), None, 0, 1, 0, 9)
        self.commit(Changes(finished=[Finished(recipient, 1, 0, 1, self.size)], events=[said]))


@asynccontextmanager
async def here(path: Path, *, is_behind: bool = False) -> AsyncIterator[Here]:
    async with trio.open_nursery() as nursery:
        found = Here(path, nursery)
        for link, key in ((APP, OWNER), (SECOND_APP, SIGNER), (ASKER_LINK, ASKER)):
            found.link(link, key)
        if not is_behind:
            found.book.sealed(found.now())
        try:
            yield found
            nursery.cancel_scope.cancel()
        finally:
            found.book.close()
            found.store.close()


def states(answer: dict[str, Any]) -> list[str]:
    return [one["state"] for one in answer["recipients"]]


# -- while the log is read ---------------------------------------------------------------------------------------


async def test_what_ends_while_the_log_is_read_is_no_fault(tmp_path: Path) -> None:
    """A fan-out that is settled bit by bit, some of it in each search; one that was lost is told of as such."""
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:4])
        node.lose(RECIPIENTS[3])
        node.fates.ask(APP, node.identity)
        for one in RECIPIENTS[:3]:
            await node.until_searched()
            node.end(one)
            await node.cycle()
            assert APP not in node.told
        assert states(await node.answer()) == ["delivered", "delivered", "delivered", "unaccounted"]


async def test_after_so_many_searches_what_still_changes_is_said_to(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[: LOOKS_MAX + 1])
        node.fates.ask(APP, node.identity)
        for one in RECIPIENTS[:LOOKS_MAX]:
            await node.until_searched()
            node.end(one)
            await node.cycle()
        answer = await node.answer()
        assert states(answer) == ["delivered"] * (LOOKS_MAX - 1) + ["unknown", "queued"]
        assert answer["recipients"][-2]["next"] == CHANGING
        node.fates.ask(APP, node.identity)
        assert states(await node.answer()) == ["delivered"] * LOOKS_MAX + ["queued"]


async def test_a_log_that_is_sealed_while_the_question_waits(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        async with node.fates.turn:
            node.fates.ask(APP, node.identity)
            await node.book.tidy(node.now())
            assert node.book.sealed_seq() == 1
        assert states(await node.answer()) == ["queued"]


@pytest.mark.parametrize("is_cut_off", [True, False])
async def test_where_a_segment_is_gone_or_cut_off_no_fault_is_claimed(tmp_path: Path, is_cut_off: bool) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        await node.book.tidy(node.now())
        node.end(RECIPIENTS[0])
        await node.book.tidy(node.now())
        [_, one] = node.segments.kept()
        if is_cut_off:
            one.path.write_bytes(one.path.read_bytes()[: one.size // 2])
        else:
            one.path.unlink()
        node.fates.ask(APP, node.identity)
        answer = await node.answer()
        [told] = answer["recipients"]
        assert (told["state"], answer["missing_events"]) == ("unknown", [[2, 2]])
        whose = f" ({one.path} is not believed)" if is_cut_off else ""
        assert told["next"] == f"cannot be known: the event 2 is missing or cannot be read{whose}"
        if is_cut_off:
            assert answer["incomplete"].startswith(
                f"{one.path} is not believed, for its bytes cannot be read or are not those"
            )
        else:
            assert answer["incomplete"] == f"{one.path} is gone or damaged, and what it told is not known"


@pytest.mark.parametrize("is_pruned", [True, False])
async def test_what_the_log_has_lost_the_store_still_tells(tmp_path: Path, is_pruned: bool) -> None:
    """Who is still owed it, with what is left of the log; of who is not, nothing; and the same to who brought it."""
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:3])
        await node.book.tidy(node.now())
        said = Outward(WALL_S * S, 6, "forwarded", RECIPIENTS[0], 1, ((1, 1),), None, 0, 1, 0, 1)
        node.commit(Changes(events=[said]))
        node.end(RECIPIENTS[1])
        node.lose(RECIPIENTS[2])
        await node.book.tidy(node.now())
        [first, _] = node.segments.kept()
        if is_pruned:
            node.segments.prune(WALL_S, 1e9, 1)
        else:
            first.path.unlink()
        for typed in (node.identity, node.identity[:8]):
            node.fates.ask(APP, typed)
            answer = await node.answer()
            assert (answer["message"], answer["acceptance"], answer["complete"]) == (node.identity, "store", False)
            assert answer["accepted_ns"] == WALL_S * S and answer["brought_by"] == ASKER.hex()
            lacks = "older events, up to number 4, are no longer kept" if is_pruned else "the events 1 to 1 are missing"
            assert answer["incomplete"].startswith(f"the log has no acceptance of it; {lacks}")
            assert "; this is what the store holds of it" in answer["incomplete"]
            owed, ended, lost = answer["recipients"]
            assert (owed["state"], owed["attempts"], owed["attempts_complete"]) == (
                "queued",
                0 if is_pruned else 1,
                False,
            )
            assert owed["until"] and owed["next"].startswith(f"waits for {RECIPIENTS[0].hex()[:8]}")
            assert ended["state"] == ("unknown" if is_pruned else "delivered")
            assert lost["state"] == "unknown" and lost["next"].startswith("cannot be known: ")
        node.fates.asked(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert [row[0] for row in (await node.answer(ASKER_LINK))["why"]["outcomes"]] != []
        node.fates.asked(ASKER_LINK, SIGNER, f"{node.identity} 1")
        assert (await node.answer(ASKER_LINK))["why"]["problem"] == NOT_PERMITTED


async def test_of_a_damaged_line_nothing_counts_and_its_file_is_told_of(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.book.log()
        [path] = (tmp_path / "log").glob(".open-*")
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(b'"ttls":[60]', b'"ttls":[  ]'))
        node.fates.ask(APP, node.identity)
        found = await node.answer()
        assert (found["acceptance"], found["states"]) == ("store", {"queued": 1})
        assert str(path) in found["incomplete"] and found["missing_events"]


async def test_a_log_that_cannot_be_read_is_an_answer(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.book.log()
        [path] = (tmp_path / "log").glob(".open-*")
        path.unlink()
        path.mkdir()
        node.fates.ask(APP, node.identity)
        assert (await node.answer())["error"].startswith(f"{DAMAGED}: ")
        node.fates.asked(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert (await node.answer(ASKER_LINK))["why"]["problem"] == DAMAGED


async def test_a_damaged_store_is_an_answer(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        identity = bytes(range(32))
        with node.store._env.begin(write=True) as txn:
            txn.put(pack(">I", 1) + identity, b"???", db=node.store._db["ids"])
        node.fates.ask(APP, identity.hex())
        said = (await node.answer())["error"]
        assert said.startswith(f"{STORE_DAMAGED}: ") and str(tmp_path) in said
        node.fates.asked(ASKER_LINK, ASKER, f"{identity.hex()} 1")
        assert (await node.answer(ASKER_LINK))["why"]["problem"] == STORE_DAMAGED


async def test_while_the_log_is_behind_its_store_that_is_said(tmp_path: Path) -> None:
    async with here(tmp_path, is_behind=True) as node:
        node.accept(RECIPIENTS[:1])
        node.fates.ask(APP, node.identity)
        said = "; the newest events wait in the store, for the disk takes no log now, and were not searched"
        answer = await node.answer()
        assert (states(answer), answer["acceptance"]) == (["queued"], "store") and answer["incomplete"].endswith(said)
        node.fates.ask(APP, "abcd" * 5)
        assert (await node.answer())["error"].endswith(said)
        node.book.sealed(node.now())
        node.fates.ask(APP, node.identity)
        assert states(await node.answer()) == ["queued"]


async def test_who_is_blocked_is_not_waited_for(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.router.directory.replace_neighbours([Neighbour(RECIPIENTS[0], "bob", blocked=True)])
        node.fates.ask(APP, node.identity)
        [one] = (await node.answer())["recipients"]
        assert one["state"] == "queued" and one["next"].startswith("bob is blocked here (`router peer block`)")


async def test_a_service_from_elsewhere_is_answered_about_what_it_handed_over_itself(tmp_path: Path) -> None:
    """By whole ids, and one question at a time: it can neither look through the log nor take all places."""
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.fates.ask(APP, node.identity, SIGNER)
        assert (await node.answer())["error"] == NOT_THE_SERVICE_S
        node.fates.ask(APP, node.identity[:10], ASKER)
        assert (await node.answer())["error"] == WHOLE_ID
        node.fates.ask(APP, node.identity, ASKER)
        node.fates.ask(SECOND_APP, node.identity, ASKER)
        assert (await node.answer(SECOND_APP))["error"] == BUSY
        assert states(node.told[APP][-1] if len(node.told[APP]) > 2 else await node.answer()) == ["queued"]


# -- limits ------------------------------------------------------------------------------------------------------


async def test_so_many_questions_are_open_at_most(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        for _ in range(WAITING_MAX):
            node.fates.ask(APP, node.identity)
        node.fates.ask(SECOND_APP, node.identity)
        node.fates.asked(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert await node.answer(SECOND_APP) == {"error": BUSY}
        assert node.told[ASKER_LINK][0]["why"]["problem"] == BUSY
        while len(node.told.get(APP, ())) < WAITING_MAX:
            await node.cycle()
        assert [states(one) for one in node.told[APP]] == [["queued"]] * WAITING_MAX
        node.fates.ask(SECOND_APP, node.identity)
        assert states(await node.answer(SECOND_APP)) == ["queued"]


async def test_a_neighbour_asks_one_question_at_a_time(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        for _ in range(2):
            node.fates.asked(ASKER_LINK, ASKER, f"{node.identity} 0")
        busy, good = (await node.answer(ASKER_LINK), await node.answer(ASKER_LINK))
        assert (busy["why"]["problem"], good["why"]["problem"]) == (BUSY, "")
        node.fates.asked(ASKER_LINK, ASKER, f"{node.identity} 0")
        assert await node.answer(ASKER_LINK) == good


# -- asking further ----------------------------------------------------------------------------------------------


def delivered(node: Here) -> bytes:
    return encode_report(Report(node.identity, WALL_S * S, (Outcome("delivered", None, 1, WALL_S * S),)))


async def test_of_very_many_only_so_many_are_asked_and_that_is_said(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS)
        for number, one in enumerate(RECIPIENTS):
            node.end(one, "acked")
            if number:
                node.link(FIRST_LINK + number, one)
        node.fates.ask(APP, f"{node.identity} follow")
        await node.cycle()
        assert [link for link, _ in node.asked] == [FIRST_LINK + number for number in range(1, ASKED_MAX)]
        for one in RECIPIENTS[1:ASKED_MAX]:
            node.fates.answered(one, delivered(node))
        answer = await node.answer()
        problems = [one["hops"][-1].get("reason") for one in answer["recipients"]]
        assert problems == [NOT_CONNECTED] + [None] * (ASKED_MAX - 1) + [NOT_ASKED] * 2
        assert answer["recipients"][-1]["next"].endswith(NOT_ASKED)


async def test_two_questions_about_one_message_are_one_to_the_neighbour(tmp_path: Path) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.end(RECIPIENTS[0], "acked")
        node.link(FIRST_LINK, RECIPIENTS[0])
        for link in (APP, SECOND_APP):
            node.fates.ask(link, f"{node.identity} follow")
        await node.cycle(2)
        assert node.asked == [(FIRST_LINK, Inquiry("why", f"{node.identity} {DEPTH_MAX - 1}"))]
        node.fates.answered(RECIPIENTS[0], delivered(node))
        await node.cycle(2)
        for link in (APP, SECOND_APP):
            [one] = node.told[link][0]["recipients"]
            assert [hop["event"] for hop in one["hops"]] == ["acked", "accepted", "delivered"]


async def test_who_loses_patience_takes_no_answer_from_others(tmp_path: Path, mock_clock: MockClock) -> None:
    async with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.end(RECIPIENTS[0], "acked")
        node.link(FIRST_LINK, RECIPIENTS[0])
        node.fates.ask(APP, f"{node.identity} follow")
        await node.cycle()
        await wait_all_tasks_blocked()
        mock_clock.jump(PATIENCE_S)
        node.fates.ask(SECOND_APP, f"{node.identity} follow")
        await node.cycle()
        await wait_all_tasks_blocked()
        mock_clock.jump(PATIENCE_S * DEPTH_MAX)
        [one] = (await node.answer())["recipients"]
        assert one["hops"][-1]["reason"] == NO_ANSWER
        node.fates.answered(RECIPIENTS[0], delivered(node))
        await wait_all_tasks_blocked()
        mock_clock.jump(PATIENCE_S * DEPTH_MAX)
        [one] = (await node.answer(SECOND_APP))["recipients"]
        assert one["hops"][-1]["event"] == "delivered"
        node.fates.answered(RECIPIENTS[0], delivered(node))
        assert "0 asked of others" in repr(node.fates)
