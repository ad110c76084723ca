"""The end of a sending command: exit codes for refusals, and the sentences about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.cli.exits import Exit, Failure
from router.cli.output import short_text
from router.cli.publish_report import PublishCounts, hear_uplinks
from router.client.errors import Refused
from router.client.outcomes import Outcomes
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text
from router.settings import config, keyring
from router.settings.home import Home
from router.settings.names import Names

ID = MessageId(b"i" * 32)
ALICE, BOB = (SigningKey(bytes([n]) * 32).public for n in range(2))


def end_of(*recipients: RecipientOutcome) -> Failure:
    tally = PublishCounts(as_json=True)
    tally.followed(ID, recipients, complete=True)
    with pytest.raises(Failure) as caught:
        tally.finish()
    return caught.value


def test_refused_by_a_recipient_is_code_4() -> None:
    failure = end_of(RecipientOutcome(ALICE, "delivered"), RecipientOutcome(BOB, "refused", Reason.PEER_REFUSED))
    assert failure.code is Exit.REFUSED
    advice = f"`router why {key_text('msg', ID)}` tells why, as far as it is known here"
    assert str(failure) == f"the message was refused by a recipient or on the way; {advice}"


@pytest.mark.parametrize(("refused", "said"), [(1, "1 of 2 messages was"), (2, "2 of 2 messages were")])
def test_the_number_agrees(refused: int, said: str) -> None:
    tally = PublishCounts(as_json=True)
    for at in range(2):
        state = "refused" if at < refused else "delivered"
        tally.followed(MessageId(bytes([at]) * 32), [RecipientOutcome(ALICE, state)], complete=True)
    with pytest.raises(Failure, match=f"^{said} refused by a recipient or on the way; `router why msg1"):
        tally.finish()


def test_of_many_refusals_at_once_one_is_named_and_the_rest_counted(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    tally = PublishCounts(as_json=False, clock_s=lambda: now_s)
    for at_s, reason in [(0.0, Reason.NO_SUBSCRIBERS)] * 3 + [(0.5, Reason.TOO_LARGE), (1.5, Reason.NO_SUBSCRIBERS)]:
        now_s = at_s
        tally.failed(Refused(reason, message=ID))
    with pytest.raises(Failure, match=r"^5 of 5 messages were refused; --json names each$"):
        tally.finish()
    first, other, later, _ = capsys.readouterr().err.splitlines()
    assert (first, other) == (
        str(Refused(Reason.NO_SUBSCRIBERS, message=ID)),
        str(Refused(Reason.TOO_LARGE, message=ID)),
    )
    assert later == f"{first}; 2 more were refused for that reason before it"


def test_refused_by_a_router_says_so() -> None:
    failure = end_of(RecipientOutcome(ALICE, "refused", Reason.MALFORMED))
    assert failure.code is Exit.REFUSED
    assert "routers themselves take no messages" in str(failure)


def test_delivered_is_code_0() -> None:
    tally = PublishCounts(as_json=True)
    tally.followed(ID, [RecipientOutcome(ALICE, "delivered"), RecipientOutcome(BOB, "acked")], complete=True)
    tally.finish()
    assert repr(tally) == "<1 messages, 0 refused>"


def test_the_service_that_carries_groups_is_shown_only_if_it_is_the_only_recipient(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path)
    home.create()
    service = keyring.load_or_create(home, "service-crowd").public
    names = Names(home, config.load(home.config_path)[0])
    for readers, shown in (([ALICE], ALICE), ([], service)):
        tally = PublishCounts(False, names, "service-crowd")
        tally.followed(ID, [RecipientOutcome(one, "delivered") for one in (*readers, service)], complete=True)
        [line] = capsys.readouterr().out.splitlines()
        assert any(text in line for text in (key_text("addr", shown), short_text("addr", shown)))
        assert line.endswith("  delivered, kept for readers at other nodes" if shown == service else "  delivered")


def test_empty_standard_input_is_said_unless_something_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    PublishCounts(as_json=False).nothing_read()
    said = "standard input was empty: nothing was read, so nothing was sent; give messages as BODY, or one a line\n"
    assert capsys.readouterr().err == said
    one = PublishCounts(as_json=True)
    one.taken(ID)
    one.nothing_read()
    assert capsys.readouterr().err == ""


READ_HERE = [RecipientOutcome(ALICE, "delivered")]


@pytest.mark.parametrize(
    ("here", "state", "reason", "noted", "ended"),
    [
        ([], "acked", None, "", ""),
        (READ_HERE, "acked", None, "", ""),
        ([], "refused", Reason.NOT_AUTHORISED, "", "not-authorised: the sender has no right to do this here"),
        (
            READ_HERE, "refused", Reason.NOT_AUTHORISED,
            "not-authorised: the sender has no right to do this here; only apps of this node have it, and "
            "`router peers` says more\n", "",
        ),
        (READ_HERE, "queued", None, "` tells later\n", ""),
        (READ_HERE, "refused", Reason.NO_SUBSCRIBERS, "messages kept; only apps of this node have it\n", ""),
    ],
)  # fmt: skip
async def test_what_the_uplinks_refuse_is_said_also_where_apps_of_this_node_have_it(
    here: list[RecipientOutcome],
    state: str,
    reason: Reason | None,
    noted: str,
    ended: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes, tally = Outcomes(ID), PublishCounts(as_json=True)
    outcomes.hear(Outcome(ID, (*here, RecipientOutcome(BOB, "queued"))))
    outcomes.hear(Outcome(ID, (RecipientOutcome(BOB, state, reason),)))
    await hear_uplinks(outcomes, frozenset([BOB]), tally)
    said = capsys.readouterr().err
    assert ("only apps of this node have it" in said) is bool(noted)
    assert said.endswith(noted) and bool(said) == bool(noted)
    if not ended:
        tally.finish()
        return
    with pytest.raises(Failure, match=f"was refused by addr1.*, {ended}$"):
        tally.finish()
