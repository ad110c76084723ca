"""Outcomes: recipient by recipient or as numbers, to the end or until no more can be reported."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from router.client.outcomes import Followed, Outcomes
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

ID = MessageId(bytes(32))
ALICE, BOB = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))


def say(outcomes: Outcomes, *rows: RecipientOutcome) -> None:
    outcomes.hear(Outcome(ID, rows))


def test_outcomes_and_reports_are_sentences() -> None:
    assert str(Outcomes(ID)).endswith(": no recipient is known")
    assert str(RecipientOutcome(2, "acked")) == "acked for 2 recipients"
    said = str(Report(ID, ALICE, "expired", Reason.TTL_EXPIRED, 0))
    message, whom = short(key_text("msg", ID)), short(key_text("addr", ALICE))
    assert said == f"message {message} to {whom} ended undelivered: expired, ttl-expired ({Reason.TTL_EXPIRED.clause})"


async def test_by_name() -> None:
    outcomes = Outcomes(ID)
    assert not outcomes.complete and outcomes.recipients == []
    say(outcomes, RecipientOutcome(ALICE, "queued"), RecipientOutcome(BOB, "refused", Reason.QUEUE_FULL_RECIPIENT))
    assert not outcomes.complete
    assert repr(outcomes) == "<outcomes of 000000000000…: 2 recipients, 1 open>"
    alice, bob = (short(key_text("addr", one)) for one in (ALICE, BOB))
    said = f"queued for {alice}; refused for {bob} (queue-full-recipient)"
    assert str(outcomes) == f"message {short(key_text('msg', ID))}: {said}"
    say(outcomes, RecipientOutcome(ALICE, "delivered"))
    assert outcomes.complete
    assert [one.state async for one in outcomes] == ["queued", "refused", "delivered"]
    assert await outcomes.final() == [
        RecipientOutcome(ALICE, "delivered"),
        RecipientOutcome(BOB, "refused", Reason.QUEUE_FULL_RECIPIENT),
    ]


async def test_by_number() -> None:
    outcomes = Outcomes(ID)
    say(outcomes, RecipientOutcome(3, "queued"), RecipientOutcome(1, "refused", Reason.QUEUE_FULL_RECIPIENT))
    say(outcomes, RecipientOutcome(2, "delivered"))
    assert not outcomes.complete
    say(outcomes, RecipientOutcome(1, "expired", Reason.TTL_EXPIRED))
    assert outcomes.complete
    found = {one.state: one.recipient for one in outcomes.recipients}
    assert found == {"refused": 1, "delivered": 2, "expired": 1}


@pytest.mark.parametrize("state", ["delivered", "acked", "unconfirmed", "expired", "refused", "dropped"])
async def test_terminal_states(state: str) -> None:
    outcomes = Outcomes(ID)
    say(outcomes, RecipientOutcome(ALICE, state))
    assert outcomes.complete


async def test_waiting(autojump_clock: MockClock) -> None:
    outcomes, words = Outcomes(ID), list[str]()

    async def read() -> None:
        async for one in outcomes:
            words.append(one.state)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(outcomes.final)
        await wait_all_tasks_blocked()
        say(outcomes, RecipientOutcome(ALICE, "queued"))
        await wait_all_tasks_blocked()
        assert words == ["queued"]
        assert await outcomes.final(timeout_s=3) == [RecipientOutcome(ALICE, "queued")]
        outcomes.cut()
    assert not outcomes.complete


def test_followed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.client.outcomes.FOLLOWED_MAX", 3)
    followed = Followed()
    all_of_them = [followed.follow(MessageId(bytes((n,)) * 32)) for n in range(5)]
    assert repr(followed) == "<3 messages followed>"
    for one in all_of_them:
        followed.hear(Outcome(one.id, (RecipientOutcome(ALICE, "delivered"),)))
    assert [one.complete for one in all_of_them] == [False, False, True, True, True]
    assert repr(followed) == "<0 messages followed>"
