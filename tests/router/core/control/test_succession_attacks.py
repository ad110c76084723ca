"""Statements about keys that a thief, a hostile neighbour or chance brings, and what each can reach."""

from __future__ import annotations

import json

import pytest
from rigs.one_router import ME, WALL_S
from samples.core import ALICE, BOB, GROUP
from test_succeeding import DAY_S, KEYS, NEW, NEWER, OTHER, RIGHTS, Core, bob, chain, letter, said

from router.core.control import succeeding
from router.core.control.succeeding import HELD_OFF, SIGN_ON_AGAIN
from router.core.log.events import RENEWAL, SUCCESSION_REFUSED
from router.core.neighbours.directory import JOIN, Neighbour, Standing
from router.core.routing.admission import REPLACED_S
from router.core.routing.effects import BeginAnew
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunPlace, claim_run, stop_run
from router.core.wire.succession import FOLLOWED_MAX, formers, make_succession

MAL = SigningKey(bytes((97,)) * 32)
"""The key of another neighbour."""
MALS = Neighbour(bytes(MAL.public), "mal", RIGHTS)
URL = "tls://192.168.1.9:4100"
DISCOVERY = SigningKey(bytes((81,)) * 32)


def because(one: Core) -> list[str]:
    return [note["because"] for note in one.notes(SUCCESSION_REFUSED)]


def test_who_has_an_entry_of_its_own_is_let_in_also_where_a_thief_was_believed_first() -> None:
    """It is the remedy that the operator is told of: remove the wrong entry, and add the right node by its address."""
    one = Core()
    one.come(OTHER, chain(BOB, OTHER))
    assert one.come(NEW, chain(BOB, NEW))[1][0].reason is Reason.RENEWED
    one.router.neighbours_changed([Neighbour(bytes(NEW.public), "bob", RIGHTS)], one.now())
    one.cycle()
    assert one.come(NEW, chain(BOB, NEW))[1] == [] and one.standing(NEW) is Standing.CLIENT
    assert one.come(OTHER, chain(BOB, OTHER))[1][0].reason is Reason.NOT_AUTHORISED
    link = one.router.links.to(NEW.public)
    assert link is not None
    one.router.link_down(link.id, one.now())
    one.come(NEWER, chain(BOB, NEW, NEWER))
    assert one.come(NEWER, chain(BOB, NEW, NEWER))[1] == [] and one.standing(NEWER) is Standing.CLIENT


def test_a_neighbour_does_not_lead_by_its_own_key_to_one_that_is_connected() -> None:
    """Who has stolen the key of a neighbour that runs, and is a neighbour itself, makes a chain from its own key over
    the stolen one."""
    one = Core(bob(), MALS)
    here = one.link(BOB.public, role="router")
    _, [closed] = one.come(NEW, chain(MAL, BOB, NEW))
    assert closed.text == HELD_OFF["connected"]
    assert one.router.links.get(here) is not None and not one.router.directory.successors
    assert sorted(because(one)) == ["connected", "in-use"]


def test_the_newest_key_that_has_an_entry_is_followed_and_an_older_entry_stays_apart() -> None:
    one = Core(bob(), MALS)
    one.come(NEW, chain(BOB, MAL, NEW))
    assert one.come(NEW, chain(BOB, MAL, NEW))[1] == []
    assert one.router.directory.neighbours.keys() == {BOB.public, NEW.public}
    assert one.router.directory.name_of(NEW.public) == "mal" and because(one) == ["in-use"]
    assert "remove one of both entries" in one.router.succeeding.problem_of(BOB.public)


def test_no_neighbour_makes_this_node_its_own_successor() -> None:
    one = Core()
    one.come(ME, chain(BOB, ME))
    one.come(NEW, chain(BOB, ME, NEW))
    assert not one.router.directory.successors and one.router.directory.neighbours.keys() == {BOB.public}
    assert because(one) == ["own-key"]


@pytest.mark.parametrize(("key", "what"), [(ALICE, "an app"), (GROUP, "a group that is joined here")])
def test_a_key_that_is_used_here_takes_nobodys_place(key: SigningKey, what: str) -> None:
    one = Core()
    one.join()
    one.come(key, chain(BOB, key))
    assert not one.router.directory.successors and because(one) == ["in-use"], what


def met(*known: Neighbour) -> tuple[Core, int]:
    """Return a router with a discovery service, and the link of that."""
    one = Core(*known or (bob(),), services={bytes(DISCOVERY.public): "discovery"}, strangers=True)
    return one, one.link(DISCOVERY.public)


def learn(one: Core, service: int, word: str, **asked: object) -> None:
    body = encode_inquiry(Inquiry(word, json.dumps(asked)))
    one.bring(service, seal_unicast(DISCOVERY, ME.public, body, ttl_s=0, expiry_min=one.expiry()))
    one.cycle()


@pytest.mark.parametrize("lan", [False, True])
def test_who_was_met_by_the_new_key_before_it_showed_whose_place_it_takes_is_followed(lan: bool) -> None:
    """Its advertisement, or its datagrams on the LAN, may come before its link does."""
    one, service = met()
    one.join()
    until_s = one.now().wall_s + 3600
    learn(one, service, "agree", key=NEW.public.hex(), groups=[GROUP.public.hex()], until_s=until_s, lan=lan)
    assert one.router.directory.is_met(NEW.public)
    assert one.come(NEW, chain(BOB, NEW))[1][0].text == SIGN_ON_AGAIN
    assert one.come(NEW, chain(BOB, NEW))[1] == [] and one.standing(NEW) is Standing.CLIENT
    assert one.router.groups.joined_by(NEW.public) == {GROUP.public}


def test_what_waits_for_the_new_key_is_handed_over_before_it_is_followed() -> None:
    one, service = met()
    one.join()
    learn(one, service, "learn", key=NEW.public.hex(), urls=[URL], until_s=one.now().wall_s + 3600, how="lan")
    one.write(letter(1, to=NEW), letter(2, to=BOB))
    link, closed = one.come(NEW, chain(BOB, NEW))
    assert not closed and one.handed(link) == [letter(1, to=NEW)]
    one.pass_time(1)
    assert not one.closed() and not one.router.directory.successors
    end = one.router.links.get(link)
    assert end is not None
    one.router.settled(link, end.outgoing.sent, one.now())
    one.pass_time(1)
    assert one.closed() == [(link, "shutdown")]
    one.come(NEW, chain(BOB, NEW))
    link, closed = one.come(NEW, chain(BOB, NEW))
    assert not closed and one.handed(link) == [letter(2, to=BOB)]


def test_what_comes_for_the_new_key_in_the_cycle_in_which_it_is_believed_is_not_mixed_either() -> None:
    one, service = met()
    learn(one, service, "learn", key=NEW.public.hex(), urls=[URL], until_s=one.now().wall_s + 3600, how="lan")
    one.write(letter(2, to=BOB))
    one.router.renewing.hear(said(), one.now())
    one.write(letter(1, to=NEW))
    assert not one.router.directory.successors and len(one.disk.owed) == 2
    link, _ = one.come(NEW, ())
    assert one.handed(link) == [letter(1, to=NEW)]
    end = one.router.links.get(link)
    assert end is not None
    one.router.settled(link, end.outgoing.sent, one.now())
    one.cycle()
    link, _ = one.come(NEW, chain(BOB, NEW))
    assert one.handed(link) == [letter(2, to=BOB)] and NEW.public in one.router.directory.neighbours


def test_one_neighbour_does_not_fill_the_room_for_what_is_believed() -> None:
    """Nothing that is believed is ever forgotten, so one that is renewed without end would keep all others out."""
    one = Core()
    keys = [BOB, *(SigningKey(number.to_bytes(32, "big")) for number in range(1, FOLLOWED_MAX + 9))]
    for at in range(1, len(keys)):
        one.come(keys[at], chain(*keys[max(0, at - 1) : at + 1]))
    assert len(one.notes(RENEWAL)) == FOLLOWED_MAX
    assert because(one)[0] == "often" and "have its entry removed" in one.router.succeeding.problem_of(keys[64].public)


def test_nodes_leave_half_of_the_room_to_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(succeeding, "RENEWALS_MAX", 2)
    one = Core(bob(), MALS)
    one.come(NEW, chain(BOB, NEW))
    assert one.come(OTHER, chain(MAL, OTHER))[1][0].reason is Reason.RENEWED
    assert because(one) == ["full"]


def test_a_thief_does_not_take_the_place_of_a_node_whose_connection_it_has_ended() -> None:
    """Who has the key connects by it, which ends the owner's connection, hangs up, and shows its statement at once."""
    one = Core()
    one.link(BOB.public, role="router", claim=claim_run(BOB, RunPlace(0, 5, b"1" * 8)))
    thief = one.link(BOB.public, role="router", claim=claim_run(BOB, RunPlace(0, 5, b"2" * 8)))
    one.router.link_down(thief, one.now())
    for _ in range(2):
        assert one.come(OTHER, chain(BOB, OTHER))[1][0].text == HELD_OFF["replaced"]
    assert because(one) == ["replaced"]
    one.link(BOB.public, role="router", claim=claim_run(BOB, RunPlace(0, 5, b"1" * 8)))
    assert one.come(OTHER, chain(BOB, OTHER))[1][0].text == HELD_OFF["connected"]
    assert not one.router.directory.successors


def test_a_node_that_was_started_again_while_its_connection_hung_is_followed_after_a_while() -> None:
    one = Core()
    one.link(BOB.public, role="router")
    again = one.link(BOB.public, role="router")
    one.router.link_down(again, one.now())
    assert one.come(NEW, chain(BOB, NEW))[1][0].reason is Reason.RATE_LIMITED
    one.pass_time(REPLACED_S + 1)
    assert one.come(NEW, chain(BOB, NEW))[1][0].text == SIGN_ON_AGAIN
    assert len(one.notes(RENEWAL)) == 1


def test_of_a_key_by_which_two_nodes_ran_nobody_is_believed_until_one_is_kept() -> None:
    """A thief that shows a later run of the key has the owner's node stop, and would have its place at once."""
    one = Core()
    runs = [RunPlace(0, 5, b"1" * 8), RunPlace(0, 6, b"2" * 8)]
    one.router.copies.neighbour_stopped(bytes(BOB.public), stop_run(BOB, *runs))
    assert one.come(OTHER, chain(BOB, OTHER))[1][0].text == HELD_OFF["copied"] and because(one) == ["copied"]
    kept = one.link(BOB.public, role="router", claim=claim_run(BOB, RunPlace(7, 7, b"3" * 8)))
    one.router.link_down(kept, one.now())
    assert one.come(NEW, chain(BOB, NEW))[1][0].text == SIGN_ON_AGAIN


def test_the_first_claim_to_a_place_stays_named_however_many_follow() -> None:
    one = Core(bob(), MALS)
    one.come(NEW, chain(BOB, NEW))
    for key in KEYS[3:]:
        one.come(key, chain(BOB, key))
    assert len(because(one)) == 4 and KEYS[3].public == one.notes(SUCCESSION_REFUSED)[0]["router"]
    first = next(iter(one.router.succeeding._named))
    assert first == (BOB.public, KEYS[3].public)
    one.come(OTHER, chain(BOB, OTHER))
    assert next(iter(one.router.succeeding._named)) == first and len(one.router.succeeding._named) == 4


def test_a_statement_of_a_clock_far_ahead_changes_nothing() -> None:
    one = Core()
    late = make_succession(BOB, NEW, WALL_S + 3 * DAY_S, WALL_S + 4 * DAY_S)
    _, [closed] = one.come(NEW, formers([late]))
    assert closed.reason is Reason.RENEWED and because(one) == ["ahead"] and not one.router.directory.successors
    one.pass_time(3 * DAY_S)
    assert one.come(NEW, formers([late]))[1][0].text == SIGN_ON_AGAIN


def test_a_restored_old_home_is_refused_and_its_messages_stay_there() -> None:
    """An earlier backup brings the old key back: it is told that it was renewed, and takes nobody's place again."""
    one = Core()
    one.come(NEW, chain(BOB, NEW))
    _, [closed] = one.come(BOB, ())
    assert closed.reason is Reason.RENEWED and "sign on with the one" in closed.text
    assert one.come(OTHER, chain(BOB, OTHER))[1][0].reason is Reason.RENEWED
    assert one.router.directory.neighbours.keys() == {NEW.public} and JOIN in one.router.directory.grants(NEW.public)


def test_the_operator_has_a_running_node_get_another_key_unless_nobody_would_follow_it() -> None:
    """The old key is gone afterwards, so a statement that nobody believes could not be made again."""
    one = Core()
    assert one.order("rotate") == {"former": ME.public.hex()}
    assert one._gone(BeginAnew) == [BeginAnew(rotates_s=one.now().judged_s)]
    assert "takes no argument" in one.order("rotate", "now")["error"]
    one.ahead_s = 100.0
    assert "`router clock`" in one.order("rotate")["error"]
    one.ahead_s = 0.0
    run = one.router.copies.begin(b"2" * 8, one.now())
    assert run is not None
    one.router.shown_run(stop_run(ME, run.run._replace(start_ms=run.run.start_ms - 1), run.run), one.now())
    assert "router copy keep" in one.order("rotate")["error"]
    assert not one._gone(BeginAnew)


def test_a_node_is_no_neighbour_of_its_own_under_a_former_key() -> None:
    """Others pass its earlier advertisement on for a day, and a configuration may name its earlier address."""
    one = Core(bob(), Neighbour(bytes(OTHER.public), "me before", urls=(URL,), uplink=True))
    one.router.renewing.hear(said(OTHER, ME), one.now())
    one.cycle()
    assert one.router.directory.neighbours.keys() == {BOB.public} and not one.router.directory.uplinks
