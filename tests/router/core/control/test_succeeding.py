"""A neighbour comes by a new key and shows whose place it takes: what moves, and what is refused, by value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from rigs.inviting import ANNA, ID, SECRET, House, yes
from rigs.one_router import ME, WALL_S
from samples.core import ALICE, BOB, GROUP

from router.core.control import succeeding
from router.core.control.succeeding import SIGN_ON_AGAIN, STILL_THERE
from router.core.log.events import RENEWAL, SUCCESSION_REFUSED, Noted, Outward
from router.core.neighbours.directory import JOIN, RELAY, STORE, WHY, Neighbour, Standing
from router.core.routing.effects import Close, Reconcile
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.succession import ANSWERS_S, Former, KeySuccession, formers, make_succession

KEYS = [BOB, *(SigningKey(bytes((n,)) * 32) for n in range(91, 97))]
NEW, NEWER, OTHER, BEHIND = *KEYS[1:3], SigningKey(bytes((98,)) * 32), SigningKey(bytes((99,)) * 32)
DAY_S = 86_400
URLS = ("tls://bob:4100",)
RIGHTS = frozenset((JOIN, STORE, RELAY))


def said(old: SigningKey = BOB, new: SigningKey = NEW, from_s: int = WALL_S) -> KeySuccession:
    return make_succession(old, new, from_s, from_s + ANSWERS_S)


def chain(*keys: SigningKey) -> tuple[Former, ...]:
    return formers(said(old, new) for old, new in pairwise(keys))


def bob(**more: Any) -> Neighbour:
    return Neighbour(bytes(BOB.public), **{"name": "bob", "grants": RIGHTS, "urls": URLS, **more})


class Core(House):
    """A router whose neighbour Bob, an edge, has joined a group, and is away."""

    def __init__(self, *known: Neighbour, **more: Any) -> None:
        super().__init__(*(known or (bob(),)), **more)

    def join(self) -> None:
        link = self.link(BOB.public, role="router")
        body = encode_control(Join(GROUP.public, False))
        self.bring(link, seal_unicast(BOB, ME.public, body, ttl_s=0, expiry_min=self.expiry()))
        self.bring(link, seal_unicast(BEHIND, ALICE.public, b"?", ttl_s=DAY_S, expiry_min=expiry_min(WALL_S + DAY_S)))
        self.cycle()
        self.router.link_down(link, self.now())
        self.cycle()

    def come(self, key: SigningKey, was: tuple[Former, ...]) -> tuple[int, list[Close]]:
        """Return the link by which a router comes, and how it was closed."""
        self._gone(Close)
        number = self.link(key.public, role="router", was=was)
        return number, [one for one in self._gone(Close) if isinstance(one, Close) and one.link == number]

    def notes(self, event: str) -> list[dict[str, Any]]:
        return [dict(one.fields) for one in self.events if isinstance(one, Noted) and one.event == event]

    def write(self, *wires: bytes) -> None:
        self.bring(self.operator, *wires)
        self.cycle()


def letter(number: int, to: SigningKey = BEHIND) -> bytes:
    return seal_unicast(ALICE, to.public, b"%d" % number, ttl_s=DAY_S, expiry_min=expiry_min(WALL_S + DAY_S))


def news(number: int) -> bytes:
    return seal_multicast(GROUP, b"%d" % number, ttl_s=DAY_S, expiry_min=expiry_min(WALL_S + DAY_S))


def test_the_first_link_carries_the_statement_and_the_second_everything_that_waited() -> None:
    one = Core()
    one.join()
    waiting = [letter(1), news(2)]
    one.write(*waiting)
    _, [closed] = one.come(NEW, chain(BOB, NEW))
    assert (closed.reason, closed.text) == (Reason.SHUTDOWN, SIGN_ON_AGAIN)
    [dialled] = one._gone(Reconcile)[-1:]
    assert isinstance(dialled, Reconcile)
    assert [(it.key, it.name, it.urls, it.grants) for it in dialled.neighbours] == [(NEW.public, "bob", URLS, RIGHTS)]
    assert one.router.groups.joined_by(NEW.public) == {GROUP.public} and not one.router.groups.joined_by(BOB.public)
    late = [letter(3), news(4)]
    one.write(*late)
    link, closed_again = one.come(NEW, chain(BOB, NEW))
    assert not closed_again and one.standing(NEW) is Standing.CLIENT
    assert sorted(one.handed(link)) == sorted(waiting + late)
    end = one.router.links.get(link)
    assert end is not None
    one.router.settled(link, end.outgoing.sent, one.now())
    one.cycle()
    assert {recipient for recipient, _ in one.disk.owed} == {ALICE.public}, "the question that has come for her"
    ends = {it.recipient for it in one.events if isinstance(it, Outward)}
    assert ends >= {BOB.public, NEW.public}, "told by the key to which it was owed"
    [note] = one.notes(RENEWAL)
    assert note == {"service": "router", "old": BOB.public, "new": NEW.public, "from": WALL_S, "until": said().until_s}


def test_it_is_there_after_a_restart_and_with_a_configuration_that_names_the_old_key() -> None:
    one = Core()
    one.join()
    one.write(letter(1))
    one.come(NEW, chain(BOB, NEW))
    again = Core(disk=one.disk)
    assert again.router.directory.neighbours.keys() == {NEW.public}
    again.router.neighbours_changed([bob(name="robert")], again.now())
    assert again.router.directory.name_of(NEW.public) == "robert"
    link, closed = again.come(NEW, chain(BOB, NEW))
    assert not closed and again.handed(link) == [letter(1)]


def test_the_old_key_gets_nothing_more_and_what_comes_to_it_goes_to_the_new_one_for_thirty_days() -> None:
    one = Core()
    one.come(NEW, chain(BOB, NEW))
    _, [closed] = one.come(BOB, ())
    assert closed.reason is Reason.RENEWED
    link, _ = one.come(NEW, chain(BOB, NEW))
    one.write(letter(1, to=BOB))
    assert one.handed(link) == [letter(1, to=BOB)]
    one.pass_time(ANSWERS_S + 1)
    late = seal_unicast(ALICE, BOB.public, b"2", ttl_s=DAY_S, expiry_min=expiry_min(one.now().wall_s + DAY_S))
    job = one.bring(one.operator, late)
    one.cycle()
    assert [reason for _, reason, _ in job.refusals] == [Reason.RENEWED] and not one.handed(link)


def test_a_chain_of_five_is_followed_from_whichever_key_is_known() -> None:
    for known in range(5):
        one = Core(Neighbour(bytes(KEYS[known].public), "bob", RIGHTS, urls=URLS))
        _, [closed] = one.come(KEYS[5], chain(*KEYS[:6]))
        assert closed.text == SIGN_ON_AGAIN, known
        assert one.come(KEYS[5], chain(*KEYS[:6]))[1] == [] and one.standing(KEYS[5]) is Standing.CLIENT
        assert len(one.notes(RENEWAL)) == 5 - known
        assert one.come(KEYS[known], chain(*KEYS[: known + 1]))[1][0].reason is Reason.RENEWED


def test_a_second_successor_of_one_key_is_refused_and_named_once() -> None:
    """Who stole the old key signs one as well as its owner."""
    one = Core()
    one.come(NEW, chain(BOB, NEW))
    for _ in range(2):
        _, [closed] = one.come(OTHER, chain(BOB, OTHER))
        assert closed.reason is Reason.RENEWED and "one of both statements is a thief's" in closed.text
    [note] = one.notes(SUCCESSION_REFUSED)
    assert (note["router"], note["old"], note["because"]) == (OTHER.public, BOB.public, "other")
    assert "claims its place" in one.router.succeeding.problem_of(NEW.public)
    assert one.come(NEW, chain(BOB, NEW))[1] == [] and one.standing(NEW) is Standing.CLIENT


def test_what_a_thief_shows_of_our_own_key_is_named_and_changes_nothing() -> None:
    one = Core()
    _, [closed] = one.come(OTHER, chain(ME, OTHER))
    assert closed.reason is Reason.RENEWED and one.notes(SUCCESSION_REFUSED)[0]["because"] == "own-key"
    assert not one.router.directory.successors and one.router.succeeding.problem_of(ME.public)


@pytest.mark.parametrize(
    ("known", "was", "because"),
    [
        (bob(blocked=True), chain(BOB, NEW), "a blocked key succeeds nobody"),
        (bob(grants=frozenset({WHY}), learned="lan"), chain(BOB, NEW), "a key that is only met"),
        (bob(), (), "no statement"),
        (bob(), chain(OTHER, NEW), "of a key that is not known"),
        (bob(), chain(BOB, OTHER), "for another key"),
        (bob(), chain(BOB, OTHER, NEW)[:1], "a chain without its last statement"),
        (bob(), chain(NEW, BOB, NEW), "a circle"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_not_followed(known: Neighbour, was: tuple[Former, ...], because: str) -> None:
    one = Core(known)
    _, [closed] = one.come(NEW, was)
    assert closed.reason is Reason.NOT_AUTHORISED, because
    assert not one.router.directory.successors and one.router.directory.neighbours.keys() == {BOB.public}


def test_one_signature_is_not_enough() -> None:
    one = Core()
    [full] = chain(BOB, NEW)
    forged = Former(full.old, full.from_s, full.until_s, full.new_signature, full.new_signature)
    assert one.come(NEW, (forged,))[1][0].reason is Reason.NOT_AUTHORISED and not one.router.directory.successors


def test_a_key_that_has_an_entry_of_its_own_is_not_mixed_with_another() -> None:
    one = Core(bob(), Neighbour(bytes(NEW.public), "new", frozenset({JOIN})))
    link, closed = one.come(NEW, chain(BOB, NEW))
    assert not closed and one.router.links.get(link) is not None and one.router.directory.grants(NEW.public) == {JOIN}
    assert one.notes(SUCCESSION_REFUSED)[0]["because"] == "in-use"
    assert "remove one of both entries" in one.router.succeeding.problem_of(BOB.public)


def test_nobody_is_followed_while_it_is_connected() -> None:
    """A thief who renews the key of a node that runs is told apart from its owner, who gives it to one that is
    stopped."""
    one = Core()
    here = one.link(BOB.public, role="router")
    for _ in range(2):
        _, [closed] = one.come(NEW, chain(BOB, NEW))
        assert (closed.reason, closed.text) == (Reason.RATE_LIMITED, STILL_THERE)
    assert [note["because"] for note in one.notes(SUCCESSION_REFUSED)] == ["connected"]
    assert "is connected here" in one.router.succeeding.problem_of(BOB.public)
    assert one.router.links.get(here) is not None and not one.router.directory.successors
    one.router.link_down(here, one.now())
    assert one.come(NEW, chain(BOB, NEW))[1][0].text == SIGN_ON_AGAIN
    assert not one.router.succeeding.problem_of(NEW.public)
    assert one.come(NEW, chain(BOB, NEW))[1] == [] and one.standing(NEW) is Standing.CLIENT


def test_a_strangers_link_of_the_new_key_ends_when_it_shows_whose_place_it_takes() -> None:
    one = Core(strangers=True)
    stranger, closed = one.come(NEW, ())
    assert not closed and one.standing(NEW) is Standing.STRANGER
    _, [closed_now] = one.come(NEW, chain(BOB, NEW))
    assert closed_now.text == SIGN_ON_AGAIN and one.router.links.get(stranger) is None
    assert one.come(NEW, chain(BOB, NEW))[1] == [] and one.standing(NEW) is Standing.CLIENT


def test_what_is_named_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(succeeding, "NAMED_MAX", 2)
    one = Core()
    one.come(NEW, chain(BOB, NEW))
    for key in KEYS[3:6]:
        one.come(key, chain(BOB, key))
    assert len(one.notes(SUCCESSION_REFUSED)) == 3
    assert repr(one.router.succeeding) == "<succeeding: 2 statements refused>"


def test_a_guest_whose_grant_is_not_in_the_file_yet_keeps_it_and_takes_no_second_use() -> None:
    one = Core()
    one.invite()
    link = one.guest(ANNA)
    assert one.redeem(link, ANNA) == [yes("join", "store")]
    one.router.link_down(link, one.now())
    _, [closed] = one.come(NEW, chain(ANNA, NEW))
    assert closed.text == SIGN_ON_AGAIN
    link = one.link(NEW.public, role="router", was=chain(ANNA, NEW))
    assert one.standing(NEW) is Standing.CLIENT and one.redeem(link, NEW, SECRET) == [yes("join", "store")]
    assert [(it["left"], it["peer"]) for it in one.invited() if it["change"] == "redeemed"] == [(0, ANNA.public)]


def test_a_guest_is_ended_by_either_address() -> None:
    for ended_by in (ANNA, NEW):
        one = Core()
        one.invite()
        link = one.guest(ANNA)
        one.redeem(link, ANNA)
        one.router.link_down(link, one.now())
        one.come(NEW, chain(ANNA, NEW))
        assert one.order("expel", ended_by.public.hex())["rights"] == ["join", "store"]
        assert NEW.public not in one.router.directory.neighbours
    one = Core()
    one.invite()
    link = one.guest(ANNA)
    one.redeem(link, ANNA)
    one.router.link_down(link, one.now())
    one.come(NEW, chain(ANNA, NEW))
    removed = one.order("uninvite", f"{ID} guests")["removed"]
    assert removed == [NEW.public.hex(), ANNA.public.hex()], "the file names her by the old one"


def test_blocking_its_old_address_shuts_out_the_new_one() -> None:
    one = Core()
    one.come(NEW, chain(BOB, NEW))
    one.router.neighbours_changed([bob(blocked=True)], one.now())
    one.cycle()
    assert one.come(NEW, chain(BOB, NEW))[1][0].reason is Reason.NOT_AUTHORISED
    assert one.come(NEWER, chain(BOB, NEW, NEWER))[1][0].reason is Reason.NOT_AUTHORISED


def test_what_is_said_to_the_own_old_address_is_heard_for_thirty_days_and_its_key_is_refused() -> None:
    one = Core()
    one.router.renewing.hear(said(OTHER, ME), one.now())
    one.cycle()
    one = Core(disk=one.disk)
    link = one.link(BOB.public, role="router")

    def joins() -> bool:
        body = encode_control(Join(GROUP.public, False))
        one.bring(link, seal_unicast(BOB, OTHER.public, body, ttl_s=0, expiry_min=one.expiry()))
        one.cycle()
        return bool(one.router.groups.joined_by(BOB.public))

    assert one.come(OTHER, ())[1][0].reason is Reason.RENEWED
    one.pass_time(ANSWERS_S + 1)
    assert not joins()
    one.seconds -= ANSWERS_S
    one.router.tick(one.now())
    assert joins()
