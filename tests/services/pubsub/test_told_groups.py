"""What a node's router was told of shared groups: if it refuses a part for now or for good, it is told again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.pubsub_sides import Side, Sides

from router.core.routing.effects import SendOwn
from router.core.wire.admin import Answer, decode_inquiry, encode_inquiry
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.service.roles import overlay as o
from router.service.verbs import share_groups
from services.pubsub.core.meetings.told_groups import AGAIN, WHOLE_S

SERVICE = SigningKey(b"S" * 32)
KEYS = [SigningKey(n.to_bytes(32, "big")).public for n in range(1, 112)]
*MANY, ONE_MORE = KEYS
PAGE = 50
"""Groups of a page, of which `MANY` are three; the product's pages have 512."""
EXPIRY = expiry_min(WALL_S + 80_000)
REFUSED = {"error": "no room"}


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "GROUPS_MAX", PAGE)


class ToldRouter:
    """The router of a side. `refuses(page)`: whether it refuses a page now."""

    def __init__(self, side: Side, other: Side) -> None:
        self.side, self.other = side, other
        self.router = OneRouter(services={bytes(SERVICE.public): "pubsub"})
        self.link = self.router.link(SERVICE.public, size=1 << 20)
        self.refuses: Callable[[o.ShareGroups], bool] = lambda _: False
        self.told = list[tuple[int, int]]()

    def hear(self) -> None:
        """Carry out what the side has said since, and tell it so."""
        for said in self.side.take(o.ShareGroups):
            self.told.append((said.page, len(said.groups)))
            answer = REFUSED if self.refuses(said) else self._answer(said)
            for heard in said.answered(answer):
                self.side.hear(heard)

    def _answer(self, said: o.ShareGroups) -> dict[str, object]:
        self.router.done.clear()
        self.router.seconds = self.side.seconds
        body = encode_inquiry(said.inquiry())
        self.router.bring(self.link, seal_unicast(SERVICE, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        self.router.cycle()
        [answer] = [
            decode_inquiry(open_message(each.wire).body) for each in self.router.done if isinstance(each, SendOwn)
        ]
        assert isinstance(answer, Answer)
        found: dict[str, object] = json.loads(answer.text)
        return found

    @property
    def agreed(self) -> set[bytes]:
        return set(self.router.router.directory.agreements.shared(self.other.router.public).groups)

    @property
    def shared(self) -> set[bytes]:
        return {bytes(topic.group) for topic in self.side.rules.known.shared_with(self.other.router.public)}


class Pair:
    """Two connected sides that want these groups, and the router of the first."""

    def __init__(self, groups: list[PublicKey]) -> None:
        self.one, self.two = Side(1, groups), Side(2, groups)
        self._sides = Sides(self.one, self.two)
        self._sides.link(self.one, self.two)
        self.told = ToldRouter(self.one, self.two)

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self._sides.pass_time(1)
            self.told.hear()


@pytest.mark.parametrize("refused", [{0}, {1}, {2}, {0, 1, 2}])
def test_pages_that_were_refused_are_told_again_in_their_order(refused: set[int]) -> None:
    pair = Pair(MANY)
    told = pair.told
    told.refuses = lambda said: said.page in refused and bool(said.groups)
    pair.pass_time(20)
    assert len(told.shared) == len(MANY) and told.agreed < told.shared
    told.refuses = lambda _: False
    pair.pass_time(40)
    assert told.agreed == told.shared
    told.told.clear()
    pair.pass_time(60)
    assert not told.told, "it is told no more than that"


def test_what_is_left_while_our_router_has_no_room_is_taken_back_once_it_has() -> None:
    pair = Pair(MANY)
    told = pair.told
    pair.pass_time(20)
    assert told.agreed == told.shared
    told.refuses = lambda said: not said.page
    pair.one.hear(o.Wanted(MANY[0], False))
    pair.pass_time(20)
    assert told.agreed == {*MANY} and told.shared == {*MANY[1:]}
    told.refuses = lambda _: False
    pair.pass_time(40)
    assert told.agreed == told.shared


def test_groups_are_taken_back_where_that_was_refused_and_nothing_is_shared_any_more() -> None:
    pair = Pair(MANY)
    told = pair.told
    pair.pass_time(20)
    told.refuses = lambda said: True
    for group in MANY:
        pair.two.hear(o.Wanted(group, False))
    pair.pass_time(20)
    assert told.agreed and not told.shared
    told.refuses = lambda _: False
    pair.pass_time(40)
    assert not told.agreed


def test_a_new_telling_replaces_one_of_which_a_part_was_refused() -> None:
    pair = Pair(MANY)
    told = pair.told
    told.refuses = lambda said: said.page == 1
    pair.pass_time(4)
    assert not told.agreed
    for side in (pair.one, pair.two):
        side.hear(o.Wanted(ONE_MORE, True))
    told.refuses = lambda _: False
    pair.pass_time(40)
    assert told.agreed == told.shared == {*KEYS}


def test_a_router_that_has_forgotten_what_it_agreed_on_is_told_all_with_the_next_meeting() -> None:
    pair = Pair(MANY)
    told = pair.told
    pair.pass_time(20)
    told.router.router.directory.agreements.end(pair.two.router.public)
    pair.two.hear(o.Wanted(ONE_MORE, True))  # this node does not share it, but both meet
    pair.pass_time(20)
    assert told.agreed == told.shared == {*MANY}


def test_a_router_that_refuses_for_good_is_told_less_and_less_often() -> None:
    pair = Pair(MANY[:3])
    told = pair.told
    told.refuses = lambda _: True
    pair.pass_time(int(WHOLE_S / 2))
    tellings = sum(not page for page, _ in told.told)
    assert 8 < tellings < 40 and 3 * AGAIN.pause_s_max < WHOLE_S / 2
