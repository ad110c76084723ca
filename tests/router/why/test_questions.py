"""Questions about messages on a running router: changes while the log is read, who is asked, and the limits."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from rigs.asked_router import APP, ASKER, ASKER_LINK, FIRST_LINK, RECIPIENTS, SECOND_APP, SIGNER, Here, S, here
from samples.stores import WALL_S

from router.core.log.events import Outward
from router.core.neighbours.directory import Neighbour
from router.core.neighbours.successors import Successor
from router.core.routing.effects import Changes
from router.core.routing.not_owed import OF_A_ROUTER
from router.core.why.report import NeighbourReport, RecipientCount, encode_report
from router.core.wire.admin import Inquiry
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
)


def states(answer: dict[str, Any]) -> list[str]:
    return [one["state"] for one in answer["recipients"]]


def test_keys_that_the_home_or_the_configuration_names_are_named(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:2])
        node.end(RECIPIENTS[0])
        node.names = {RECIPIENTS[0]: "laptop", SIGNER: "not in the answer"}
        node.ask(APP, node.identity)
        assert node.answer()["names"] == {RECIPIENTS[0].hex(): "laptop", ASKER.hex(): "asker"}


# -- while the log is read ---------------------------------------------------------------------------------------


def test_what_ends_while_the_log_is_read_is_no_fault(tmp_path: Path) -> None:
    """Each search finds a part of a fan-out settled; a message that really was lost is reported as lost."""
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:4])
        node.lose(RECIPIENTS[3])
        node.ask(APP, node.identity)
        for one in RECIPIENTS[:3]:
            node.search()
            node.end(one)
            node.cycle()
            assert APP not in node.told
        assert states(node.answer()) == ["delivered", "delivered", "delivered", "unaccounted"]


def test_after_so_many_searches_what_still_changes_is_said_to(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[: LOOKS_MAX + 1])
        node.ask(APP, node.identity)
        for one in RECIPIENTS[:LOOKS_MAX]:
            node.search()
            node.end(one)
            node.cycle()
        answer = node.answer()
        assert states(answer) == ["delivered"] * (LOOKS_MAX - 1) + ["unknown", "queued"]
        assert answer["recipients"][-2]["next"] == CHANGING
        node.ask(APP, node.identity)
        assert states(node.answer()) == ["delivered"] * LOOKS_MAX + ["queued"]


async def test_a_log_that_is_sealed_while_the_question_waits(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.ask(APP, node.identity)
        await node.book.tidy(node.now())
        assert node.book.sealed_seq() == 1
        assert states(node.answer()) == ["queued"]


@pytest.mark.parametrize("is_cut_off", [True, False])
async def test_where_a_segment_is_gone_or_cut_off_no_fault_is_claimed(tmp_path: Path, is_cut_off: bool) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        await node.book.tidy(node.now())
        node.end(RECIPIENTS[0])
        await node.book.tidy(node.now())
        [_, one] = node.segments.kept()
        if is_cut_off:
            one.path.write_bytes(one.path.read_bytes()[: one.size // 2])
        else:
            one.path.unlink()
        node.ask(APP, node.identity)
        answer = node.answer()
        [told] = answer["recipients"]
        assert (told["state"], answer["missing_events"]) == ("unknown", [[2, 2]])
        whose = f" ({one.path} is not believed)" if is_cut_off else ""
        assert told["next"] == f"cannot be known: the event 2 is missing or cannot be read{whose}"
        if is_cut_off:
            assert answer["incomplete"].startswith(
                f"{one.path} is not believed, for its bytes cannot be read or are not those"
            )
        else:
            assert answer["incomplete"] == f"{one.path} is gone or damaged, and what it held is not known"


@pytest.mark.parametrize("is_pruned", [True, False])
async def test_what_the_log_has_lost_the_store_still_tells(tmp_path: Path, is_pruned: bool) -> None:
    """The store tells who is still owed the message, with the rest of the log, but nothing about other recipients; its
    publisher hears the same."""
    with here(tmp_path) as node:
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
            node.ask(APP, typed)
            answer = node.answer()
            assert (answer["message"], answer["acceptance"], answer["complete"]) == (node.identity, "store", False)
            assert answer["accepted_ns"] == WALL_S * S and answer["brought_by"] == ASKER.hex()
            lacks = "older events, up to number 4, are no longer kept" if is_pruned else "the events 1 to 1 are missing"
            assert answer["incomplete"].startswith(f"the log does not record that it was accepted; {lacks}")
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
        node.asked_by(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert [row[0] for row in node.answer(ASKER_LINK)["why"]["outcomes"]] != []
        node.asked_by(ASKER_LINK, SIGNER, f"{node.identity} 1")
        assert node.answer(ASKER_LINK)["why"]["problem"] == NOT_PERMITTED


def test_of_a_damaged_line_nothing_counts_and_its_file_is_told_of(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.book.log()
        [path] = (tmp_path / "log").glob(".open-*")
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(b'"ttls":[60]', b'"ttls":[  ]'))
        node.ask(APP, node.identity)
        found = node.answer()
        assert (found["acceptance"], found["states"]) == ("store", {"queued": 1})
        assert str(path) in found["incomplete"] and found["missing_events"]


def test_a_log_that_cannot_be_read_is_an_answer(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.book.log()
        [path] = (tmp_path / "log").glob(".open-*")
        path.unlink()
        path.mkdir()
        node.ask(APP, node.identity)
        assert node.answer()["error"].startswith(f"{DAMAGED}: ")
        node.asked_by(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert node.answer(ASKER_LINK)["why"]["problem"] == DAMAGED


def test_a_damaged_store_is_an_answer(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        identity = bytes(range(32))
        with node.store._env.begin(write=True) as txn:
            txn.put(pack(">I", 1) + identity, b"???", db=node.store._db["ids"])
        node.ask(APP, identity.hex())
        said = node.answer()["error"]
        assert said.startswith(f"{STORE_DAMAGED}: ") and str(tmp_path) in said
        node.asked_by(ASKER_LINK, ASKER, f"{identity.hex()} 1")
        assert node.answer(ASKER_LINK)["why"]["problem"] == STORE_DAMAGED


def test_while_the_log_is_behind_its_store_that_is_said(tmp_path: Path) -> None:
    with here(tmp_path, is_behind=True) as node:
        node.accept(RECIPIENTS[:1])
        node.ask(APP, node.identity)
        said = "; the newest events wait in the store because the log cannot be written now, and were not searched"
        answer = node.answer()
        assert (states(answer), answer["acceptance"]) == (["queued"], "store") and answer["incomplete"].endswith(said)
        node.ask(APP, "abcd" * 5)
        assert said in node.answer()["error"]
        node.book.sealed(node.now())
        node.ask(APP, node.identity)
        assert states(node.answer()) == ["queued"]


def test_who_is_blocked_is_not_waited_for(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.router.directory.replace_neighbours([Neighbour(RECIPIENTS[0], "bob", blocked=True)])
        node.ask(APP, node.identity)
        [one] = node.answer()["recipients"]
        assert one["state"] == "queued" and one["next"].startswith("bob is blocked here (`router peer block`)")


def test_it_is_told_which_lan_neighbours_were_not_owed_it_and_why(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        near, next_ = RECIPIENTS[1:3]
        for key in (near, next_):
            node.router.directory.agreements.agree(ASKER, key, [SIGNER], 60, 0, lan=True)
        node.accept([RECIPIENTS[0], near])
        node.ask(APP, node.identity)
        assert node.answer()["not_owed"] == [{"neighbour": next_.hex(), "why": OF_A_ROUTER}]


def test_a_service_from_elsewhere_is_answered_about_what_it_handed_over_itself(tmp_path: Path) -> None:
    """The service may ask by whole ids only, and one question at a time: it can neither search the log nor take all
    places."""
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.ask(APP, node.identity, SIGNER)
        assert node.answer()["error"] == NOT_THE_SERVICE_S
        node.ask(APP, node.identity[:10], ASKER)
        assert node.answer()["error"] == WHOLE_ID
        node.ask(APP, node.identity, ASKER)
        node.ask(SECOND_APP, node.identity, ASKER)
        assert node.answer(SECOND_APP)["error"] == BUSY
        assert states(node.told[APP][-1] if len(node.told[APP]) > 2 else node.answer()) == ["queued"]


# -- limits ------------------------------------------------------------------------------------------------------


def test_so_many_questions_are_open_at_most(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        for _ in range(WAITING_MAX):
            node.ask(APP, node.identity)
        node.ask(SECOND_APP, node.identity)
        node.asked_by(ASKER_LINK, ASKER, f"{node.identity} 1")
        assert node.answer(SECOND_APP) == {"error": BUSY}
        assert node.told[ASKER_LINK][0]["why"]["problem"] == BUSY
        while len(node.told.get(APP, ())) < WAITING_MAX:
            node.cycle()
        assert [states(one) for one in node.told[APP]] == [["queued"]] * WAITING_MAX
        node.ask(SECOND_APP, node.identity)
        assert states(node.answer(SECOND_APP)) == ["queued"]


def test_a_neighbour_asks_one_question_at_a_time(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        for _ in range(2):
            node.asked_by(ASKER_LINK, ASKER, f"{node.identity} 0")
        busy, good = (node.answer(ASKER_LINK), node.answer(ASKER_LINK))
        assert (busy["why"]["problem"], good["why"]["problem"]) == (BUSY, "")
        node.asked_by(ASKER_LINK, ASKER, f"{node.identity} 0")
        assert node.answer(ASKER_LINK) == good


# -- asking further ----------------------------------------------------------------------------------------------


def delivered(node: Here) -> bytes:
    return encode_report(
        NeighbourReport(node.identity, WALL_S * S, (RecipientCount("delivered", None, 1, WALL_S * S),))
    )


def test_of_very_many_only_so_many_are_asked_and_that_is_said(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS)
        for number, one in enumerate(RECIPIENTS):
            node.end(one, "acked")
            if number:
                node.link(FIRST_LINK + number, one)
        node.ask(APP, f"{node.identity} follow")
        node.cycle()
        assert [link for link, _ in node.asked] == [FIRST_LINK + number for number in range(1, ASKED_MAX)]
        for one in RECIPIENTS[1:ASKED_MAX]:
            node.answered(one, delivered(node))
        answer = node.answer()
        problems = [one["hops"][-1].get("reason") for one in answer["recipients"]]
        assert problems == [NOT_CONNECTED] + [None] * (ASKED_MAX - 1) + [NOT_ASKED] * 2
        assert answer["recipients"][-1]["next"].endswith(NOT_ASKED)


def follow(node: Here, old: bytes) -> bytes:
    """Let another key take the place of a neighbour's, after all that was accepted; return it."""
    new = bytes([240]) * 32
    node.router.directory.succeed(Successor(old, new, WALL_S + 86_400, 9))
    node.router.directory.merge(dict(node.router.directory.configured))
    return new


def test_a_router_that_has_another_key_is_asked_by_it_about_what_it_took_over_before(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.end(RECIPIENTS[0], "acked")
        new = follow(node, RECIPIENTS[0])
        node.link(FIRST_LINK, new)
        node.ask(APP, f"{node.identity} follow")
        node.cycle()
        assert node.asked == [(FIRST_LINK, Inquiry("why", f"{node.identity} {DEPTH_MAX - 1}"))]
        node.answered(new, delivered(node))
        [one] = node.answer()["recipients"]
        assert one["recipient"] == RECIPIENTS[0].hex()
        assert [hop["event"] for hop in one["hops"]] == ["acked", "accepted", "delivered"]


def test_a_neighbour_that_has_another_key_may_ask_about_what_it_brought_before(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.asked_by(ASKER_LINK, follow(node, ASKER), f"{node.identity} 0")
        assert [row[0] for row in node.answer(ASKER_LINK)["why"]["outcomes"]] == ["queued"]
        node.ask(APP, node.identity)
        assert node.answer()["names"] == {ASKER.hex(): "asker"}


def test_two_questions_about_one_message_are_one_to_the_neighbour(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.end(RECIPIENTS[0], "acked")
        node.link(FIRST_LINK, RECIPIENTS[0])
        for link in (APP, SECOND_APP):
            node.ask(link, f"{node.identity} follow")
        node.cycle(2)
        assert node.asked == [(FIRST_LINK, Inquiry("why", f"{node.identity} {DEPTH_MAX - 1}"))]
        node.answered(RECIPIENTS[0], delivered(node))
        for link in (APP, SECOND_APP):
            [one] = node.told[link][0]["recipients"]
            assert [hop["event"] for hop in one["hops"]] == ["acked", "accepted", "delivered"]


def test_who_loses_patience_takes_no_answer_from_others(tmp_path: Path) -> None:
    with here(tmp_path) as node:
        node.accept(RECIPIENTS[:1])
        node.end(RECIPIENTS[0], "acked")
        node.link(FIRST_LINK, RECIPIENTS[0])
        node.ask(APP, f"{node.identity} follow")
        node.cycle()
        node.pass_time(PATIENCE_S)
        node.ask(SECOND_APP, f"{node.identity} follow")
        node.cycle()
        node.pass_time(PATIENCE_S * DEPTH_MAX)
        [one] = node.answer()["recipients"]
        assert one["hops"][-1]["reason"] == NO_ANSWER
        node.answered(RECIPIENTS[0], delivered(node))
        node.pass_time(PATIENCE_S * DEPTH_MAX)
        [one] = node.answer(SECOND_APP)["recipients"]
        assert one["hops"][-1]["event"] == "delivered"
        node.answered(RECIPIENTS[0], delivered(node))
        assert "0 asked of others" in repr(node.fates)
