"""Guests redeem an invitation at the router that made it: rights, refusals, and who is let in for which messages."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from rigs.inviting import ANNA, BERTA, CARLA, DAY_S, EXPIRY, HOUR_S, ID, OTHER, SECRET, House, no, yes
from rigs.one_router import ME, WALL_S
from samples.core import ALICE, GROUP

from router.cli.invite import of_one_each
from router.core.control.guests import UNKNOWN_MAX
from router.core.log.events import RouterChange
from router.core.neighbours.directory import Neighbour, Standing
from router.core.neighbours.invitations import HEARD_S, KEEP_S
from router.core.routing.limits import AdmissionLimits, CoreLimits
from router.core.wire.admin import next_page, rows_in
from router.core.wire.control import Join, encode_control
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import (
    INVITE_EXPIRED,
    INVITE_NO_ROOM,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    INVITE_USED_UP,
    Reason,
)
from router.core.wire.redemption import Redeem, Redeemed, encode_redemption
from router.core.wire.text import key_text


def test_a_stranger_that_redeems_is_a_client_and_signs_on_again() -> None:
    one = House()
    assert one.guest(ANNA) and one.closed() == [(2, "not-authorised")], "nobody is invited"
    assert one.invite(uses=2) == {"invited": ID}
    link = one.guest(ANNA)
    assert one.standing(ANNA) is Standing.STRANGER
    assert one.redeem(link, ANNA, name="laptop") == [yes("join", "store")]
    assert one.closed() == [(link, "shutdown")], "its link has the window of strangers"
    again = one.guest(ANNA)
    assert one.standing(ANNA) is Standing.CLIENT and not one.closed()
    assert one.redeem(again, ANNA) == [yes("join", "store")], "the same answer"
    [listed] = one.order("invites")
    guests = [{"address": ANNA.public.hex(), "name": "laptop", "written": False}]
    assert (listed["used"], listed["guests"], listed["state"]) == (1, guests, "open")
    assert one.invited() == [
        {"change": "made", "uses": 2, "until_s": WALL_S + DAY_S},
        {"change": "redeemed", "peer": ANNA.public, "rights": "join,store", "left": 1},
    ]


def test_an_invitation_with_many_guests_is_listed_in_several_rows_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.core.control.guests.GUESTS_OF_ROW", 2)
    monkeypatch.setattr("router.core.wire.list_page.ANSWER_BYTES_MAX", 600)
    one = House()
    one.invite(uses=3)
    one.invite(OTHER)
    for key, name in ((ANNA, "a"), (BERTA, "b"), (CARLA, "c")):
        one.redeem(one.guest(key), key, name=name)
    rows, argument, pages = list[dict[str, Any]](), "", 0
    while not pages or argument:
        answer = one.order("invites", argument)
        rows, argument, pages = rows + rows_in(answer), next_page(answer), pages + 1
    assert [[guest["name"] for guest in row["guests"]] for row in rows] == [["a", "b"], ["c"], []] and pages > 1
    listed = of_one_each(rows)
    assert [(row["used"], len(row["guests"])) for row in listed] == [(3, 3), (0, 0)]
    assert "by its number" in one.order("invites", "x")["error"]


def test_use_grant_and_event_are_one_transaction_before_the_answer() -> None:
    one = House()
    one.invite()
    link = one.guest(ANNA)
    body = encode_redemption(Redeem(SECRET))
    one.bring(link, seal_unicast(ANNA, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    jobs, one.jobs = one.jobs, []
    one.router.decide(jobs, set(), one.now())
    decision = one.router.take(one.now())
    assert len(decision.changes.book) == 1 and "invite" in [
        each.event for each in decision.changes.events if isinstance(each, RouterChange)
    ]
    assert one.router.links.to(ANNA.public) is None and not one.bodies(link), "nothing was seen outside yet"
    killed = House(disk=one.disk)
    assert killed.redeem(killed.guest(ANNA), ANNA) == [yes("join", "store")], "not committed: the use is there still"
    restarted = House(disk=killed.disk)
    restarted.guest(ANNA)
    assert restarted.standing(ANNA) is Standing.CLIENT
    assert restarted.redeem(restarted.guest(BERTA), BERTA) == [no(INVITE_USED_UP)]


def test_a_guest_whose_entry_is_gone_keeps_its_name_and_the_reason_why_it_is_connected() -> None:
    one = House()
    one.invite()
    assert one.redeem(one.guest(ANNA), ANNA, name="laptop") == [yes("join", "store")]
    guests, key = one.router.guests, ANNA.public
    assert guests.formerly(key) == guests.formerly(BERTA.public) == ("", ""), "it has its rights, or was never let in"
    assert one.order("expel", key.hex())["rights"]
    address = key_text("addr", key)
    assert guests.formerly(key) == (
        "laptop",
        f"it was let in by the invitation {ID[:8]} and has no entry here any more, so no rights; it is still connected "
        f"as a stranger, who may only redeem an invitation; `router peer block {address}` shuts it out",
    )
    one.router.directory.agreements.agree(b"s" * 32, key, [GROUP.public], WALL_S + HOUR_S, WALL_S)
    assert "as a router that was met, because it has the link of a group that is read here" in guests.formerly(key)[1]


@pytest.mark.parametrize(
    ("secret", "at_s", "revoked", "reason"),
    [
        (OTHER, 0, False, INVITE_UNKNOWN), (SECRET, DAY_S, False, INVITE_EXPIRED), (SECRET, 0, True, INVITE_REVOKED),
    ],
)  # fmt: skip
def test_whoever_holds_a_secret_hears_precisely_why_not(
    secret: bytes, at_s: int, revoked: bool, reason: Reason
) -> None:
    one = House()
    one.invite()
    if revoked:
        assert one.order("uninvite", ID[:8]) == {"revoked": ID, "guests": 0, "blocked": 0, "removed": []}
    one.pass_time(at_s)
    link = one.guest(ANNA)
    assert one.redeem(link, ANNA, secret) == [no(reason, secret)]
    assert one.standing(ANNA) is Standing.STRANGER and not one.closed()
    refused = {"change": "refused", "peer": ANNA.public, "because": reason.word}
    assert (refused in one.invited()) is (reason is not INVITE_UNKNOWN)
    assert one.router.guests.turned_away == ({} if reason is INVITE_UNKNOWN else {reason.word: 1})
    counted = ("refused", INVITE_UNKNOWN, 1) in one.turned()
    assert counted is (reason is INVITE_UNKNOWN), "a guess counts as abuse, by neighbour"


def test_a_clock_that_is_doubted_ends_no_invitation_for_good() -> None:
    one = House()
    one.invite()
    link = one.guest(ANNA)
    one.ahead_s = -DAY_S
    assert one.redeem(link, ANNA) in ([yes("join", "store")], [no(Reason.CLOCK_DOUBTED)])
    late = House()
    late.invite()
    late.pass_time(DAY_S)
    late.ahead_s = -60.0
    assert late.redeem(late.guest(ANNA), ANNA) == [no(Reason.CLOCK_DOUBTED)]


def test_three_unknown_secrets_end_the_link() -> None:
    one = House()
    one.invite()
    link = one.guest(ANNA)
    for k in range(UNKNOWN_MAX):
        assert not one.closed()
        assert one.redeem(link, ANNA, bytes((k,)) * 16) == [no(INVITE_UNKNOWN, bytes((k,)) * 16)]
    assert one.closed() == [(link, "not-authorised")] and one.standing(ANNA) is None


def test_an_invited_stranger_of_a_closed_node_may_redeem_and_nothing_else() -> None:
    for strangers, open_to_all in ((False, False), (True, True)):
        one = House(strangers=strangers)
        one.router.directory.join_open = True
        one.invite()
        link = one.guest(ANNA)
        body = encode_control(Join(GROUP.public, False))
        one.bring(link, seal_unicast(ANNA, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        one.bring(link, seal_unicast(ANNA, ALICE.public, b"hello", ttl_s=60, expiry_min=EXPIRY))
        one.cycle()
        assert bool(one.router.groups.members(GROUP.public)) is open_to_all
        assert [reason for _, reason, _ in one.settled()[link][1]] == [Reason.NOT_AUTHORISED] * (not open_to_all)


def test_the_door_closes_a_day_after_the_last_invitation_is_over_and_it_is_forgotten_later() -> None:
    one = House()
    one.invite()
    link = one.guest(ANNA)
    one.pass_time(DAY_S + HEARD_S - 1)
    assert one.closed() == [(link, "shutdown")], "a silent stranger goes"
    link = one.guest(ANNA)
    one.pass_time(1)
    assert one.closed() == [(link, "not-authorised")]
    restarted = House(disk=one.disk, seconds=one.seconds)
    assert len(restarted.order("invites")) == 1
    restarted.pass_time(KEEP_S)
    assert restarted.order("invites") == []


def test_rights_are_added_and_never_taken() -> None:
    one = House(Neighbour(ANNA.public, "anna", frozenset({"relay"})))
    one.invite(rights=["store"], uses=2)
    link = one.guest(ANNA)
    assert one.redeem(link, ANNA) == [yes("store", "relay")]
    assert not one.closed(), "it was let in before, and its link stays"
    assert one.router.directory.neighbours[ANNA.public].grants == {"relay", "store"}
    one.invite(OTHER, rights=["why"])
    assert one.redeem(link, ANNA, OTHER) == [Redeemed(OTHER, None, ("store", "relay", "why"))]
    assert one.router.directory.name_of(ANNA.public) == "anna"


def test_nobody_new_is_let_in_beyond_the_limit() -> None:
    one = House(Neighbour(CARLA.public), limits=CoreLimits(guests_max=2))
    one.invite(uses=3)
    assert one.redeem(one.guest(ANNA), ANNA) == [yes("join", "store")] and one.router.guests.facts()["full"] == 2
    assert one.redeem(one.guest(BERTA), BERTA) == [no(INVITE_NO_ROOM)] and INVITE_NO_ROOM.later
    assert one.order("invites")[0]["used"] == 1, "no use is taken"
    assert {"change": "refused", "peer": BERTA.public, "because": "invite:no-room"} in one.invited()
    assert one.redeem(one.guest(CARLA), CARLA) == [yes("join", "store")], "it has a place already"
    assert one.order("expel", ANNA.public.hex())["rights"] and one.router.guests.facts()["full"] is None
    assert one.redeem(one.guest(BERTA), BERTA) == [yes("join", "store")], "there is room again"


def test_what_services_make_known_takes_no_room_from_guests() -> None:
    one = House(limits=CoreLimits(guests_max=1))
    one.invite()
    learned: dict[bytes, Neighbour] = {key: Neighbour(key, learned="sampled") for key in (BERTA.public, CARLA.public)}
    one.router.directory.merge({**one.router.directory.neighbours, **learned})
    assert one.redeem(one.guest(ANNA), ANNA) == [yes("join", "store")]


@pytest.mark.parametrize(
    ("had", "until_s", "takes_use", "ends_s"),
    [
        (("join", "store"), 0, False, 0),
        (("join", "store", "relay"), 0, False, 0),
        (("join",), 0, True, HOUR_S),
        (("join", "store"), HOUR_S, False, HOUR_S),
        (("join", "store"), HOUR_S - 1, True, HOUR_S),
        (("join", "store"), DAY_S, False, DAY_S),
    ],
)
def test_who_has_the_rights_already_takes_no_use(
    had: tuple[str, ...], until_s: int, takes_use: bool, ends_s: int
) -> None:
    one = House(Neighbour(ANNA.public, grants=frozenset(had), until_s=until_s and WALL_S + until_s))
    one.invite(grant_until_s=WALL_S + HOUR_S)
    [answer] = one.redeem(one.guest(ANNA), ANNA)
    assert answer.reason is None and {"join", "store"} <= set(answer.rights)
    assert answer.expiry_min == (expiry_min(WALL_S + ends_s) if ends_s else 0), "until when it has them"
    assert one.order("invites")[0]["used"] == takes_use is not answer.had
    assert any(each["change"] == "redeemed" for each in one.invited()) is takes_use
    again = House(Neighbour(ANNA.public, grants=frozenset(had)), disk=one.disk)
    assert again.redeem(again.guest(BERTA), BERTA)[0].reason == (INVITE_USED_UP if takes_use else None)


def test_a_guest_of_one_link_takes_no_use_of_another_unless_it_was_removed() -> None:
    one = House()
    one.invite()
    one.invite(OTHER)
    one.redeem(one.guest(ANNA), ANNA)
    one.closed()
    link = one.guest(ANNA)
    assert one.redeem(link, ANNA, OTHER) == [Redeemed(OTHER, None, ("join", "store"), had=True)] and not one.closed()
    assert [row["used"] for row in one.order("invites")] == [1, 0]
    one.order("expel", ANNA.public.hex())
    assert one.redeem(one.guest(ANNA), ANNA, OTHER) == [Redeemed(OTHER, None, ("join", "store"))]
    assert [row["used"] for row in one.order("invites")] == [1, 1], "it had none of the rights any more"


def test_a_blocked_key_and_an_app_of_the_owner_redeem_nothing() -> None:
    one = House(Neighbour(ANNA.public, blocked=True))
    one.invite()
    assert one.guest(ANNA) and one.closed() == [(2, "not-authorised")]
    assert one.redeem(one.operator, ALICE) == []
    assert one.order("invites")[0]["used"] == 0


def test_a_grant_ends_with_its_time_on_an_open_link() -> None:
    one = House()
    one.invite(grant_until_s=WALL_S + HOUR_S)
    until = expiry_min(WALL_S + HOUR_S)
    assert one.redeem(one.guest(ANNA), ANNA) == [yes("join", "store", until=until)]
    one.closed()
    link = one.guest(ANNA)
    assert one.standing(ANNA) is Standing.CLIENT
    one.pass_time(HOUR_S)
    assert one.closed() == [(link, "shutdown")] and one.standing(ANNA) is None
    assert one.redeem(one.guest(ANNA), ANNA) == [no(INVITE_EXPIRED)]


def test_a_neighbour_whose_time_in_the_configuration_is_over_is_a_stranger_at_once() -> None:
    known = Neighbour(ANNA.public, "anna", frozenset({"join"}), until_s=WALL_S + 60)
    for strangers, reason in ((False, "not-authorised"), (True, "shutdown")):
        one = House(known, replace(known, key=BERTA.public, blocked=True), strangers=strangers)
        link = one.guest(ANNA)
        one.pass_time(59)
        assert not one.closed() and one.standing(ANNA) is Standing.CLIENT
        one.pass_time(1)
        assert one.closed() == [(link, reason)]
        one.guest(ANNA)
        assert one.standing(ANNA) is (Standing.STRANGER if strangers else None)
        assert one.router.directory.is_blocked(BERTA.public), "blocked stays blocked"
        before = len(one.done)
        one.pass_time(60)
        assert len(one.done) == before, "it ends once"


def test_orders_that_do_not_fit_are_sentences() -> None:
    one = House()
    assert one.invite() == {"invited": ID}
    for said, sentence in (
        (one.invite(), "exists"), (one.invite(OTHER, rights=["fly"]), "fly is no right"),
        (one.invite(OTHER, until_s=WALL_S), "over at once"), (one.invite(OTHER, uses=0), "1 to 1000 uses"),
        (one.invite(OTHER, more=1), "unknown field"), (one.order("uninvite", "zz"), 'begins with "zz"'),
        (one.order("uninvite"), "no invitation"),
    ):  # fmt: skip
        assert sentence in said["error"], said
    assert repr(one.router.guests) == "<1 invitations>"


def test_refusals_of_strangers_are_counted_when_their_part_of_the_log_is_spent() -> None:
    one = House(limits=CoreLimits(admission=AdmissionLimits(messages_per_s_stranger=0, messages_per_s_strangers=0)))
    one.invite()
    one.order("uninvite", ID)
    link = one.guest(ANNA)
    for _ in range(300):
        assert one.redeem(link, ANNA) == [no(INVITE_REVOKED)]
    one.pass_time(60)
    refused = [dict(each.fields) for each in one.events if isinstance(each, RouterChange) and each.event == "invite"]
    named = sum("because" in each for each in refused)
    assert named + sum(int(each.get("times", 0)) for each in refused) == 300
