"""A pong becomes an event: of known routers only, and at most once a minute each."""

from __future__ import annotations

from rigs.kernels import kernel
from samples.core import ALICE, BOB

from router.core.control.witness import Witness
from router.core.link.custody import Outgoing
from router.core.log.events import Plain, RouterChange
from router.core.neighbours.directory import Directory, Neighbour, Standing
from router.core.routing.links import Link, Links
from router.core.wire.link_items import LogHead
from router.core.wire.now import Now

S = 1_000_000_000


class Scene:
    """A router that knows Bob and not Alice, both connected."""

    def __init__(self, *, app: bool = False) -> None:
        self.directory = Directory(bytes(32))
        self.directory.replace_neighbours([Neighbour(BOB.public)])
        links = Links()
        links.add(Link(1, bytes(BOB.public), Standing.PEER, Outgoing(1, 1), app=app))
        links.add(Link(2, bytes(ALICE.public), Standing.STRANGER, Outgoing(1, 1)))
        shared = kernel(self.directory, links=links)
        self.pending, self.witness = shared.pending, Witness(shared)

    def heard(self, number: int, mono_s: float, head: LogHead | None = None) -> None:
        self.witness.heard(number, 3001, -7, head, Now(5 * S, int(mono_s * S)))

    def written(self) -> list[dict[str, Plain]]:
        return [fields for event, fields in self.events() if event == "link"]

    def events(self) -> list[tuple[str, dict[str, Plain]]]:
        found = [one for one in self.pending.take().changes.events if isinstance(one, RouterChange)]
        return [(one.event, dict(one.fields)) for one in found]


def test_round_trip_clock_and_log_head_by_the_proven_key() -> None:
    scene = Scene()
    scene.heard(1, 1, LogHead(90, b"d" * 32))
    assert scene.written() == [
        {"peer": bytes(BOB.public), "rtt_ns": 3001, "offset_ns": -7, "uncertainty_ns": 1501, "head_seq": 90,
         "head_digest": b"d" * 32},
    ]  # fmt: skip


def test_at_most_once_a_minute_though_the_head_has_changed() -> None:
    scene = Scene()
    for mono_s, seq in ((1, 90), (31, 95), (60.9, 97), (61, 99), (62, 100)):
        scene.heard(1, mono_s, LogHead(seq, b"d" * 32))
    assert [one["head_seq"] for one in scene.written()] == [90, 99]


def test_a_link_that_was_only_counted_is_named_before_what_came_over_it() -> None:
    scene = Scene()
    scene.heard(1, 1)
    scene.heard(1, 62)
    told = scene.events()
    assert [event for event, _ in told] == ["link_up", "link", "link"]
    assert told[0][1] == {"peer": bytes(BOB.public), "link": 1, "standing": "peer"}


def test_without_a_sealed_log_there_is_no_head() -> None:
    scene = Scene()
    scene.heard(1, 1)
    [one] = scene.written()
    assert "head_seq" not in one and one["rtt_ns"] == 3001


def test_strangers_apps_and_links_that_are_gone_write_nothing() -> None:
    scene = Scene()
    scene.heard(2, 1)
    scene.heard(9, 1)
    assert scene.written() == []
    app = Scene(app=True)
    app.heard(1, 1)
    assert app.written() == []


def test_who_is_no_longer_known_is_forgotten() -> None:
    scene = Scene()
    scene.heard(1, 1)
    scene.directory.replace_neighbours([Neighbour(ALICE.public)])
    scene.heard(2, 2)
    scene.directory.replace_neighbours([Neighbour(BOB.public)])
    scene.heard(1, 3)
    assert [one["peer"] for one in scene.written()] == [bytes(one.public) for one in (BOB, ALICE, BOB)]
