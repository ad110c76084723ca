"""The welcome of each kind of key, and the contents of our hello to it."""

from __future__ import annotations

from functools import partial

import pytest
from rigs.session_pair import offer
from samples.core import ALICE, BOB, GROUP

from router.core.link.session import Welcome
from router.core.neighbours.directory import Directory, Neighbour
from router.core.neighbours.successors import Successor
from router.core.routing.admission import SIGN_ON_ANEW
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.node.welcome import offer_to, welcome
from router.settings.config import Config
from router.settings.config_limits import Limits
from transports.memory import MemoryStream, stream_pair

CONFIG = Config(limits=Limits(strangers_frame_bytes_max=8192, strangers_window_messages=3, strangers_window_bytes=5000))


def directory(*, strangers: bool) -> Directory:
    """Return a directory in which Bob is known, the group's key is blocked, and Alice is a stranger."""
    found = Directory(b"\1" * 32, accept_strangers=strangers)
    found.replace_neighbours([Neighbour(BOB.public), Neighbour(GROUP.public, blocked=True)])
    return found


@pytest.mark.parametrize("strangers", [True, False])
def test_strangers_are_let_in_where_they_are_and_never_who_is_blocked(strangers: bool) -> None:
    judge = partial(welcome, directory(strangers=strangers), CONFIG)
    assert judge(False, BOB.public) == Welcome() == judge(True, ALICE.public)
    assert judge(False, ALICE.public) == (Welcome(True, 8192) if strangers else None)
    assert judge(False, GROUP.public) is None is judge(True, GROUP.public)


def test_whose_time_is_over_is_told_when_it_ended_where_no_strangers_are_let_in() -> None:
    over = Neighbour(BOB.public, until_s=1_800_000_000)
    for strangers, said in (
        (False, Welcome(refused="its time here ended on 2027-01-15 08:00 UTC")),
        (True, Welcome(True, 8192)),
    ):
        found = Directory(b"\1" * 32, accept_strangers=strangers)
        found.replace_neighbours([over])
        assert welcome(found, CONFIG, False, BOB.public) == Welcome()
        found.merge({})
        assert welcome(found, CONFIG, False, BOB.public) == said


def test_a_stranger_s_frame_is_never_longer_than_anybody_s() -> None:
    config = Config(limits=Limits(frame_bytes_max=4096, strangers_frame_bytes_max=8192))
    assert welcome(directory(strangers=True), config, False, ALICE.public) == Welcome(True, 4096)


@pytest.mark.parametrize(("peer", "is_narrow"), [(ALICE.public, True), (BOB.public, False), (None, False)])
def test_a_hello_says_less_to_a_stranger_that_the_transport_has_proven(peer: PublicKey | None, is_narrow: bool) -> None:
    stream: MemoryStream = stream_pair()[0]
    stream.peer = peer
    said = offer_to(stream, offer(), CONFIG, partial(welcome, directory(strangers=True), CONFIG, False))
    narrow = said.frame_bytes_max, said.window_messages, said.window_bytes
    whole = offer()
    assert narrow == ((8192, 3, 5000) if is_narrow else (whole.frame_bytes_max, 8, 4096))


@pytest.mark.parametrize("strangers", [False, True])
def test_a_renewed_key_is_told_so_whether_or_not_strangers_are_let_in(strangers: bool) -> None:
    found = directory(strangers=strangers)
    found.succeed(Successor(bytes(BOB.public), bytes(ALICE.public), 0, 1))
    found.replace_neighbours(found.configured.values())
    assert welcome(found, CONFIG, False, BOB.public) == Welcome(refused=SIGN_ON_ANEW, reason=Reason.RENEWED)
    assert welcome(found, CONFIG, False, ALICE.public) == Welcome()
