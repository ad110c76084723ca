"""The shares of learned routes: no other key's routes keep an answer from a served client."""

from __future__ import annotations

from itertools import count

from rigs.one_router import WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import BOB

from router.core.log.events import RouterChange
from router.core.neighbours.directory import RELAY, STORE, Neighbour
from router.core.routing.limits import CoreLimits, RouteLimits
from router.core.routing.routes import Route
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast

STRANGERS = [SigningKey(bytes((n,)) * 32) for n in range(40, 50)]
PEERS = [SigningKey(bytes((n,)) * 32) for n in range(50, 60)]
CLIENTS = [SigningKey(bytes((n,)) * 32) for n in range(60, 64)]
LIMITS = CoreLimits(routes=RouteLimits(routes_max=20, per_neighbour_max=5))
EXPIRY = expiry_min(WALL_S + 3600)
NEIGHBOURS = [Neighbour(one.public) for one in PEERS] + [
    Neighbour(one.public, grants=frozenset((STORE, RELAY))) for one in CLIENTS
]
_keys = count(1000)


def new_key() -> SigningKey:
    return SigningKey(next(_keys).to_bytes(32, "big"))


def house(disk: Disk | None = None, neighbours: list[Neighbour] | None = None) -> tuple[OneRouter, int]:
    """Return a router that admits strangers, with one public app; and its link."""
    known = NEIGHBOURS if neighbours is None else neighbours
    one = OneRouter(*known, limits=LIMITS, strangers=True, locals=[BOB.public], disk=disk)
    one.router.directory.public = frozenset([bytes(BOB.public)])
    return one, one.link(BOB.public, messages=1 << 20, size=1 << 30)


def letter(source: SigningKey, to: PublicKey, expiry: int = EXPIRY) -> bytes:
    return seal_unicast(source, to, b"x", ttl_s=60, expiry_min=expiry)


def teach(one: OneRouter, link: int, *sources: SigningKey, expiry: int = EXPIRY) -> None:
    one.bring(link, *(letter(source, BOB.public, expiry) for source in sources))
    one.cycle()


def via(one: OneRouter) -> dict[bytes, int]:
    """Return the number of routes through each neighbour, the same in memory and on disk."""
    assert {route.destination: route for route in one.router.routes} == one.disk.routes
    found: dict[bytes, int] = {}
    for route in one.router.routes:
        found[route.neighbour] = found.get(route.neighbour, 0) + 1
    return found


def is_answered(one: OneRouter, bob: int, source: SigningKey, link: int) -> bool:
    """Whether the local app's answer to `source` goes out over the link."""
    one.handed(link)
    one.bring(bob, answer := letter(BOB, source.public))
    one.cycle()
    return one.handed(link) == [answer]


def test_strangers_teach_no_route_but_back_to_themselves() -> None:
    one, bob = house()
    for stranger in STRANGERS:
        link = one.link(stranger.public, role="router")
        teach(one, link, stranger, *(new_key() for _ in range(5)))
        assert one.accepted(), "what it brings is taken in"
        assert is_answered(one, bob, stranger, link)
    assert via(one) == {}
    client, behind = one.link(CLIENTS[0].public, role="router"), new_key()
    teach(one, client, behind)
    assert is_answered(one, bob, behind, client)


def test_what_peers_taught_gives_way_to_what_a_client_teaches() -> None:
    """The oldest route of the peer with the most is replaced; events and disk record it."""
    one, bob = house()
    for peer in PEERS:
        teach(one, one.link(peer.public, role="router"), *(new_key() for _ in range(5)))
    assert sum(via(one).values()) == 20
    assert max(via(one).values()) == 5
    client, behind = one.link(CLIENTS[0].public, role="router"), new_key()
    one.events.clear()
    first = next(iter(one.router.routes)).destination
    teach(one, client, behind)
    told = [(event.event, dict(event.fields)["destination"]) for event in one.events if isinstance(event, RouterChange)]
    assert told[-2:] == [("route_del", first), ("route_add", behind.public)]
    assert via(one)[CLIENTS[0].public] == 1 and sum(via(one).values()) == 20
    assert is_answered(one, bob, behind, client)
    late = new_key()
    teach(one, one.link(PEERS[-1].public, role="router"), late)
    assert late.public not in one.disk.routes, "but a peer's gives way to no peer's"


def test_clients_leave_room_to_the_next_client() -> None:
    one, _ = house()
    for client in CLIENTS[:3]:
        teach(one, one.link(client.public, role="router"), *(new_key() for _ in range(20)))
    assert list(via(one).values()) == [5, 5, 5]
    link, behind = one.link(CLIENTS[3].public, role="router"), new_key()
    teach(one, link, *(new_key() for _ in range(20)))
    assert sum(via(one).values()) < 20, "each leaves as much as it takes"
    teach(one, link, behind)


def test_a_peer_does_not_lead_a_clients_app_astray() -> None:
    """A message of that app comes by the peer too, with a later expiry, but the client's route holds while it
    exists."""
    one, bob = house()
    client, peer = (one.link(key.public, role="router") for key in (CLIENTS[0], PEERS[0]))
    behind = new_key()
    teach(one, client, behind)
    teach(one, peer, behind, expiry=EXPIRY + 60)
    assert is_answered(one, bob, behind, client)
    other = new_key()
    teach(one, peer, other, expiry=EXPIRY + 60)
    teach(one, client, other)
    assert is_answered(one, bob, other, client), "whoever came first"


def test_routes_through_who_is_no_neighbour_any_more_lead_nowhere() -> None:
    """An earlier version stored strangers' routes, and a neighbour may be removed: such routes are forgotten at the
    start."""
    gone, behind = new_key(), new_key()
    disk = Disk(routes={bytes(behind.public): Route(behind.public, gone.public, WALL_S + 3600)})
    one, bob = house(disk)
    one.cycle()
    assert via(one) == {}
    peer = one.link(PEERS[0].public, role="router")
    teach(one, peer, behind)
    one.router.neighbours_changed([known for known in NEIGHBOURS if known.key != PEERS[0].public], one.now())
    one.cycle()
    assert via(one) == {} and not is_answered(one, bob, behind, peer)
