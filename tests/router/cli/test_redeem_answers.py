"""The sentences of `router peer add INVITATION` after its router has answered, and before."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from rigs.commands import Run
from samples.invitations import CORE, invitation

from router.cli import redeem
from router.cli.exits import Exit, Failure
from router.core.wire.reasons import (
    INVITE_ENDED,
    INVITE_EXPIRED,
    INVITE_REMOVED,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    INVITE_USED_UP,
    Reason,
)
from router.node.connection import TURNED_AWAY
from router.settings import received
from router.settings.config_peers import Peer
from router.settings.received import InvitationAnswer, ReceivedInvitation, State

PEER = Peer(address=CORE.public, name="hub")
UNTIL_S = 1_790_604_840
ASK = "Ask for a new one, or remove its entry by `router peer remove hub`."


def one(outcome: State, reason: Reason | None = None, **more: object) -> ReceivedInvitation:
    given = {"reason": reason.word, "sentence": reason.sentence} if reason else {}
    fields = {"id": "0" * 64, "inviter": CORE.public.hex(), "until_s": UNTIL_S, "rights": ("join",), "outcome": outcome}
    return ReceivedInvitation(**(fields | given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (INVITE_UNKNOWN, "(invite:unknown): This router has made no such invitation."),
        (INVITE_EXPIRED, "(invite:expired): The invitation's time has passed."),
        (INVITE_USED_UP, "(invite:used-up): All uses of the invitation are taken by other guests."),
        (INVITE_REVOKED, "(invite:revoked): The operator has revoked the invitation."),
        (INVITE_REMOVED, "(invite:removed): The operator has removed this guest since it was let in."),
        (INVITE_ENDED, "(invite:ended): The time for which this guest was let in is over."),
        (Reason.BLOCKED, "(blocked): The operator has blocked this key."),
    ],
)
def test_a_refusal_says_why_and_what_to_do(reason: Reason, said: str) -> None:
    for rights, remedy in (((), ASK), (("join", "store"), "What it lets us do stays: join, store.")):
        with pytest.raises(Failure) as caught:
            redeem._end(one("refused", reason), PEER, "", rights, as_json=False)
        assert caught.value.code is Exit.REFUSED
        assert str(caught.value) == f"hub refused the invitation {said} {remedy}"


ASKS = "until 2026-09-28 14:14 UTC; `router peer list` shows the answer"


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("", f"it has not answered\nthe node goes on asking {ASKS}"),
        (redeem.NOT_RUNNING, f"no node is running here\n`router serve` starts the node, which then asks {ASKS}"),
        (redeem.STOPPED, f"the node here has stopped\n`router serve` starts the node, which then asks {ASKS}"),
        (
            TURNED_AWAY,
            "it does not let us in and does not say why: its operator has blocked or removed this node, or it takes no "
            "key that it does not know; ask its operator to unblock or add this node, or for a new invitation\n"
            f"the node goes on asking {ASKS}",
        ),
    ],
)
def test_while_it_waits_the_cause_stands_there(cause: str, said: str) -> None:
    with pytest.raises(Failure) as caught:
        redeem._end(one("waiting"), PEER, cause, (), as_json=False)
    assert (caught.value.code, str(caught.value)) == (Exit.TIMED_OUT, f"hub has not let us in yet: {said}")


def test_one_that_was_accepted_before_is_not_said_to_wait(home: Path) -> None:
    again = one("waiting", answered_s=UNTIL_S)
    with pytest.raises(Failure) as caught:
        redeem._end(again, PEER, redeem.NOT_RUNNING, ("join",), as_json=False)
    assert str(caught.value).startswith(
        "hub let us in by it on 2026-09-28 14:14 UTC, to join; asked again, it is silent"
    )


def test_a_yes_says_what_it_gives(capsys: pytest.CaptureFixture[str]) -> None:
    redeem._end(one("joined", group="friends", grant_until_s=UNTIL_S), PEER, "", (), as_json=False)
    redeem._end(one("joined", had=True), PEER, "", (), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "hub is a neighbour now and lets us join until 2026-09-28 14:14 UTC",
        "the group friends is kept here: `router sub friends` listens to it",
        "hub lets us join already: no use of this invitation was taken",
    ]


def test_after_a_refusal_it_is_not_said_to_be_a_neighbour(router: Run, home: Path) -> None:
    until_s = time.time() + 86_400
    first, second = invitation(until_s=until_s), invitation(until_s=until_s, secret=b"2" * 16)
    router("peer", "add", first.text(), "--yes")
    no = InvitationAnswer(reason=INVITE_USED_UP.word, sentence=INVITE_USED_UP.sentence)
    for given in (first, second):
        received.answered(home, first.id, no, int(time.time()))
        told = router("peer", "add", given.text(), "--yes").stderr
        assert "the-core has refused an invitation from here before (invite:used-up): it is asked again\n" in told
        assert "is a neighbour already" not in told


def test_ctrl_c_before_it_is_known_whether_a_node_runs(
    router: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(redeem, "UpdatePeer", interrupted), monkeypatch.setattr(redeem, "AddPeer", interrupted)
    told = router("peer", "add", invitation(until_s=time.time() + 86_400).text(), "--yes")
    said = (
        f"the link is kept, and the node goes on asking; `router --home {home} serve` starts it if it does not run; "
        f"`router --home {home} peer list`"
    )
    assert told.exit_code == 130 and f"{said} shows the answer\n" in told.stderr
