"""The relays of a ledger peer snapshot: their places, who gives way to whom, and how each stands."""

from __future__ import annotations

from collections import Counter
from random import Random

from services.dmq.core.peers.acts import Act, Dial, Heat
from services.dmq.core.peers.book import RESTS_S
from services.dmq.core.peers.governor import Governor
from services.dmq.core.peers.hot_places import Targets
from services.dmq.core.peers.known import PeerSource
from services.dmq.core.peers.ledger import RelayStanding
from services.dmq.core.protocols.node_handshake import Agreement
from services.dmq.core.protocols.peer_sharing import PeerAddress

SILENT = Agreement(2, True, False)
FEW = Targets(established=0, active=0, ledger_known=6, ledger_established=4, ledger_active=2)


def address(number: int, place: int = 0) -> PeerAddress:
    return PeerAddress(f"45.{place // 256}.{place % 256}.{number}", 3141)


def governor(targets: Targets = FEW) -> Governor:
    return Governor(targets, Random(1))


def of_kind(acts: list[Act], kind: type) -> list[PeerAddress]:
    return [act.address for act in acts if isinstance(act, kind)]


def test_relays_of_the_ledger_have_places_of_their_own() -> None:
    of = governor()
    of.set_ledger([address(1, place) for place in range(20)] + [PeerAddress("10.0.0.1", 1)])
    dialled = of_kind(of.decide(0.0), Dial)
    assert len(of.peers) == 6 and {peer.source for peer in of.peers} == {PeerSource.LEDGER}
    assert len(dialled) == 4
    for one in dialled:
        of.opened(one, SILENT, 0.0, is_inbound=False)
    assert len(of_kind(of.decide(0.0), Heat)) == 2
    of.set_ledger([address(1, place) for place in range(20)])
    of.decide(0.0)
    assert len(of.peers) == 6, "those that are known count"


def test_each_relay_of_the_ledger_is_told_with_how_it_stands() -> None:
    of = governor()
    of.set_ledger([address(1, place) for place in range(9)] + [PeerAddress("10.0.0.1", 1)])
    assert Counter(one for _, one in of.ledger.standings(0.0)) == {RelayStanding.NOT_DRAWN: 9, RelayStanding.PRIVATE: 1}
    first, second, *rest = of_kind(of.decide(0.0), Dial)
    of.opened(first, SILENT, 0.0, is_inbound=False)
    of.failed(second, 0.0)
    found = dict(of.ledger.standings(0.0))
    assert found[first] is RelayStanding.CONNECTED and found[second] is RelayStanding.FAILED
    assert Counter(found.values()) == {
        RelayStanding.CONNECTED: 1, RelayStanding.FAILED: 1, RelayStanding.DIALLING: len(rest),
        RelayStanding.WAITING: 2, RelayStanding.NOT_DRAWN: 3, RelayStanding.PRIVATE: 1,
    }  # fmt: skip
    now_s, stand = 0.0, set(found.values())
    while now_s < RESTS_S and RelayStanding.GIVEN_UP not in stand:
        for one in (*rest, *of_kind(of.decide(now_s), Dial)):
            of.failed(one, now_s)
        now_s, stand = now_s + 10, {one for _, one in of.ledger.standings(now_s)}
    assert RelayStanding.GIVEN_UP in stand


def test_a_relay_of_the_ledger_that_is_never_reached_gives_way_to_another() -> None:
    """Few of the relays that a ledger names may run a node: the others must not hold the places for ever."""
    of = governor()
    relays = [address(1, place) for place in range(60)]
    of.set_ledger(relays)
    alive, now_s, dials = relays[47], 0.0, 0
    while (peer := of.get(alive)) is None or not peer.is_connected:
        for one in of_kind(of.decide(now_s), Dial):
            dials += 1
            if one == alive:
                assert of.opened(one, SILENT, now_s, is_inbound=False)
            else:
                of.failed(one, now_s)
        assert len(of.peers) <= 6 and of.due_s < 3600, "another one is dialled"
        now_s = max(of.due_s, now_s)
    assert dials <= 3 * len(relays), "each one at most three times until all were tried"


def test_the_only_relay_of_the_ledger_is_dialled_again_after_a_while() -> None:
    of, now_s, dials = governor(Targets()), 0.0, list[float]()
    of.set_ledger([address(1)])
    while len(dials) < 4:
        if of_kind(of.decide(now_s), Dial):
            dials.append(now_s)
            of.failed(address(1), now_s)
        else:
            now_s = of.due_s
    assert RESTS_S <= dials[3] - dials[2] <= 2 * RESTS_S


def test_relays_that_the_ledger_names_no_more_make_room_for_others_once_they_are_not_connected() -> None:
    of, now_s = governor(), 0.0
    of.set_ledger([address(1, place) for place in range(6)])
    first, *others = of_kind(of.decide(now_s), Dial)
    of.opened(first, SILENT, now_s, is_inbound=False)
    for one in others:
        of.failed(one, now_s)
    later = [address(2, place) for place in range(9)]
    of.set_ledger(later)
    assert set(of_kind(of.decide(now_s), Dial)) <= set(later)
    assert {peer.address for peer in of.peers} - set(later) == {first}, "what is connected is not cut"
    of.closed(first, 500.0)
    of.decide(500.0)
    assert of.get(first) is None and len(of.peers) == FEW.ledger_known
