"""The right to send, in small worlds: uplinks, relays, strangers, replays, two links of one key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from router.core.neighbours.directory import Neighbour
from router.core.routing.limits import CoreLimits, RouteLimits
from router.core.routing.routes import Route
from router.core.wire.control import Carried, Leave, Pull, encode_control
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast, seal_unicast, with_via
from router.core.wire.reasons import Reason
from world.app import App, Habits
from world.ledger import Ledger
from world.node import Node, Settings
from world.world import Cable, World

ALL = "join store relay"
OPEN = Settings(strangers=True)


def edge_of(world: World, core: Node, name: str, grants: str = ALL) -> tuple[Node, Cable]:
    edge = world.node(name, Settings(limits=CoreLimits(introductions_max=0)))
    return edge, world.link(edge, core, uplink=True, grants=grants)


def reader_at(world: World, node: Node, group: str = "news", *, local: bool = False, durable: bool = True) -> App:
    app = world.app(node, durable=durable)
    app.join(world.group(group), local=local)
    return app


def reasons(book: Ledger) -> set[Reason]:
    return {Reason(one) for one in book.refusals()}


# -- two tiers ---------------------------------------------------------------------------------------------------


def test_a_message_goes_from_edge_to_edge_by_the_core() -> None:
    with World(1) as world:
        core = world.node("core")
        east, _ = edge_of(world, core, "east")
        west, _ = edge_of(world, core, "west")
        reader, writer = reader_at(world, west), world.app(east)
        world.run_until_quiet()
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert reader.first_deliveries() == [one]
        assert world.ledger(east).of_id(one) == {core.address: ["acked"]}
        assert world.ledger(core).of_id(one) == {west.address: ["acked"]}
        assert world.ledger(west).of_id(one) == {reader.key.public: ["delivered"]}


def test_an_uplink_that_dies_while_publishing_loses_nothing() -> None:
    with World(2) as world:
        cores = [world.node("first"), world.node("second")]
        edges = [world.node("east"), world.node("west")]
        for edge in edges:
            for core in cores:
                world.link(edge, core, uplink=True, grants=ALL)
        reader, writer = reader_at(world, edges[1]), world.app(edges[0])
        world.run_until_quiet()
        ids = writer.publish(world.group("news"), 60)
        world.run(0.05)
        world.crash(cores[0], None)
        ids += writer.publish(world.group("news"), 60)
        world.run_until_quiet()
        assert sorted(reader.first_deliveries()) == sorted(ids)
        assert set(reader.diary.handled.values()) == {1}
        cores[0].start()
        world.run_until_quiet()
        assert set(ids) == world.ledger(cores[0]).accepted(), "its queue waited for it"
        assert len(reader.first_deliveries()) == len(ids)


def test_what_comes_from_an_uplink_goes_to_no_other_uplink() -> None:
    with World(3) as world:
        cores = [world.node("first"), world.node("second")]
        edge = world.node("edge")
        for core in cores:
            world.link(edge, core, uplink=True, grants=ALL)
        here, there = reader_at(world, edge), reader_at(world, cores[1])
        writer = world.app(cores[0])
        world.run_until_quiet()
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert here.first_deliveries() == [one] and not there.first_deliveries()
        assert world.ledger(edge).of_id(one) == {here.key.public: ["delivered"]}
        assert one not in world.ledger(cores[1]).accepted()


def test_a_local_group_stays_on_the_node() -> None:
    with World(4) as world:
        core = world.node("core")
        edge, _ = edge_of(world, core, "edge")
        reader, writer = reader_at(world, edge, local=True), world.app(edge)
        reader_at(world, core)
        world.run_until_quiet()
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert reader.first_deliveries() == [one]
        assert not world.ledger(core).ids and edge.address not in core.router.groups.members(world.group("news").public)
        reader.join(world.group("news"), local=False)
        world.run_until_quiet()
        [two] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert world.ledger(core).accepted() == {two}, "the last JOIN wins (R-C14)"


def test_groups_beyond_the_window_are_all_joined() -> None:
    """An uplink that takes 4 JOINs at once gets 200 of them paced, without misuse of the link."""
    with World(5) as world:
        core = world.node("core", Settings(window_messages=4))
        edge = world.node("edge")
        app = world.app(edge, habits=Habits(window_messages=4))
        for _ in range(200):
            app.join(PublicKey(world.key().public))
        world.run_until_quiet()
        assert len(app.joined) == 200
        world.link(edge, core, uplink=True, grants=ALL)
        world.run(80)
        world.run_until_quiet()
        assert len(core.router.groups.joined_by(edge.address)) == 200


def test_an_uplink_that_refuses_a_join_is_noted() -> None:
    with World(6) as world:
        core = world.node("core")
        edge, _ = edge_of(world, core, "edge", grants="relay")
        reader_at(world, edge)
        world.run_until_quiet()
        noted = [dict(one.fields) for one in world.ledger(edge).states if one.event == "join"]
        assert {one.get("refused_by") for one in noted} == {None, core.address}


def test_a_message_nobody_wants_any_more_is_answered_by_a_leave() -> None:
    """The LEAVE was lost with the link; the core learns of it from the first message that it sends in vain."""
    with World(7) as world:
        core = world.node("core")
        edge, cable = edge_of(world, core, "edge")
        reader, writer = reader_at(world, edge), world.app(core)
        world.run_until_quiet()
        world.part(cable)
        reader.leave(world.group("news"))
        world.run(1)
        world.heal(cable)
        world.run_until_quiet()
        group = world.group("news").public
        assert edge.address in core.router.groups.members(group)
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert edge.address not in core.router.groups.members(group)
        assert world.ledger(core).of_id(one) == {edge.address: ["refused"]}
        assert reasons(world.ledger(edge)) == {Reason.NO_SUBSCRIBERS}


# -- relaying, and the right to it (R-C11) ---------------------------------------------------------------------

Put = Callable[[App, PublicKey], list[bytes]]


@pytest.mark.parametrize(
    ("grants", "known", "arrives"),
    [(ALL, True, True), ("relay", True, True), ("join store", True, False), ("", True, False), ("", False, False)],
)
def test_only_relay_lets_through(grants: str, known: bool, arrives: bool) -> None:
    """An app behind one neighbour sends to an app behind another: a client needs `relay`, strangers never may."""
    with World(8) as world:
        core = world.node("core", OPEN)
        edge = world.node("edge")
        world.link(edge, core, uplink=True, grants=grants, known=known)
        other = world.node("other", replace(OPEN))
        world.link(core, other, grants_back="")
        sender, target = world.app(edge), world.app(other)
        world.run_until_quiet()
        core.router.routes.learn(Route(target.key.public, other.address, 2_000_000_000), world.time.now().wall_s)
        core.disk.routes[target.key.public] = Route(target.key.public, other.address, 2_000_000_000)
        [one] = sender.send(target.key.public)
        world.run_until_quiet()
        assert (one in target.diary.handled) is arrives
        if not arrives:
            assert world.ledger(edge).ended("refused") == {(one, core.address)}
            assert [report.message for report in sender.reports] == [one], "the source is told"


def test_a_source_is_told_by_a_router_further_on_and_its_app_reads_no_report_as_a_message() -> None:
    with World(8) as world:
        core = world.node("core", OPEN)
        edge = world.node("edge")
        world.link(edge, core, uplink=True, grants=ALL)
        other = world.node("other", replace(OPEN))
        world.link(core, other, grants_back="")
        sender, target = world.app(edge), world.app(other, habits=Habits(refuse=1.0))
        world.run_until_quiet()
        core.router.routes.learn(Route(target.key.public, other.address, 2_000_000_000), world.time.now().wall_s)
        core.disk.routes[target.key.public] = Route(target.key.public, other.address, 2_000_000_000)
        [one] = sender.send(target.key.public)
        world.run_until_quiet()
        assert [(report.message, report.state) for report in sender.reports] == [(one, "refused")]
        assert not sender.diary.handled


def test_a_reply_finds_its_way_by_the_learned_route() -> None:
    with World(9) as world:
        core = world.node("core")
        east, _ = edge_of(world, core, "east")
        west, _ = edge_of(world, core, "west")
        asker, answerer = world.app(east), world.app(west)
        world.run_until_quiet()
        core.router.routes.learn(Route(answerer.key.public, west.address, 2_000_000_000), world.time.now().wall_s)
        core.disk.routes[answerer.key.public] = Route(answerer.key.public, west.address, 2_000_000_000)
        [question] = asker.send(answerer.key.public)
        world.run_until_quiet()
        assert question in answerer.diary.handled
        assert {one.destination: one.neighbour for one in core.router.routes}[asker.key.public] == east.address
        [answer] = answerer.send(asker.key.public)
        world.run_until_quiet()
        assert answer in asker.diary.handled


# -- strangers and replayers (R-C2, R-C3, R-C4) ------------------------------------------------------------------


def stirring(world: World, core: Node, edge: Node) -> tuple[App, App]:
    reader, writer = reader_at(world, core), world.app(edge)
    world.run_until_quiet()
    writer.publish(world.group("news"), 3)
    writer.send(reader.key.public, 3)
    world.run_until_quiet()
    return reader, writer


def picture(node: Node) -> tuple[object, ...]:
    disk, router = node.disk, node.router
    queues = {
        key: (one.total.messages, one.total.bytes)
        for key, one in router.queues.by_recipient.items()
        if one.total.messages
    }
    return (
        set(disk.parcels),
        set(disk.owed),
        set(disk.ids),
        dict(disk.groups),
        dict(disk.routes),
        set(disk.locals),
        queues,
    )


def test_a_stranger_changes_nothing() -> None:
    with World(10) as world:
        core = world.node("core", OPEN)
        edge, _ = edge_of(world, core, "edge")
        reader, writer = stirring(world, core, edge)
        before = picture(core)
        stranger = world.app(core, "stranger", owner=False)
        stranger.join(world.group("news"))
        stranger.publish(world.group("news"), 2)
        stranger.send(reader.key.public, 2)
        stranger.send(edge.address, 2)
        for wire in writer.diary.sent.values():
            stranger.put(wire)  # a replay of all messages of the writer
            stranger.put(with_via(wire, edge.address))
        news, expiry = world.group("news"), expiry_min(world.time.now().wall_s + 600)
        fresh = seal_multicast(world.group("news"), b"fresh", ttl_s=60, expiry_min=expiry)
        for body in (encode_control(Carried(fresh)), encode_control(Pull(news.public, message_id(fresh)))):
            stranger.put(seal_unicast(stranger.key, core.address, body, ttl_s=0, expiry_min=expiry))
        leave = encode_control(Leave(news.public))
        stranger.put(seal_unicast(reader.key, core.address, leave, ttl_s=0, expiry_min=expiry))
        world.run_until_quiet()
        assert picture(core) == before
        assert set(stranger.diary.refused.values()) <= {Reason.NOT_AUTHORISED, Reason.NOT_LOCAL_SOURCE}
        assert not stranger.joined and not stranger.answers and len(reader.diary.handled) == 6


def test_a_neighbour_that_replays_changes_nothing() -> None:
    """A peer sends back messages of the router's own apps, and earlier ones of others."""
    with World(11) as world:
        core = world.node("core")
        edge, _ = edge_of(world, core, "edge")
        reader, writer = stirring(world, core, edge)
        mine = reader.send(edge.address, 1)
        world.run_until_quiet()
        peer = world.app(core, "peer", owner=False)
        core.reconfigure([*core.neighbours.values(), Neighbour(peer.key.public, "peer")])
        world.run_until_quiet()
        before = picture(core)
        for wire in (*writer.diary.sent.values(), *reader.diary.sent.values()):
            peer.put(wire)
        world.run_until_quiet()
        assert picture(core) == before
        assert peer.diary.refused[mine[0]] is Reason.NOT_LOCAL_SOURCE, "a local source from outside is a replay (R-C3)"
        multicasts = [one for one in writer.diary.sent if one in peer.diary.settled]
        assert multicasts, "a duplicate is settled, never refused"


def test_a_changed_message_is_refused_and_not_remembered() -> None:
    with World(12) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        world.run_until_quiet()
        expiry = expiry_min(world.time.now().wall_s + 600)
        wire = seal_multicast(world.group("news"), b"true", ttl_s=60, expiry_min=expiry)
        forged = writer.put(wire.replace(b"true", b"lies"))
        true = writer.put(wire)
        world.run_until_quiet()
        assert writer.diary.refused == {forged: Reason.BAD_SIGNATURE}
        assert reader.first_deliveries() == [true] and world.ledger(node).accepted() == {true}


def test_a_forged_carrier_does_not_spoil_what_it_carries() -> None:
    """A genuine multicast is inside a unicast with a false signature, while the true copy is on its way."""
    with World(13) as world:
        node = world.node("node")
        reader, writer, forger = reader_at(world, node), world.app(node), world.app(node, owner=False)
        node.reconfigure([Neighbour(forger.key.public, "forger")])
        world.run_until_quiet()
        expiry = expiry_min(world.time.now().wall_s + 600)
        wire = seal_multicast(world.group("news"), b"true", ttl_s=60, expiry_min=expiry)
        body = encode_control(Carried(wire))
        carrier = seal_unicast(forger.key, node.address, body, ttl_s=0, expiry_min=expiry)
        forger.put(carrier[:-1] + bytes((carrier[-1] ^ 1,)))
        one = writer.put(wire)
        world.run_until_quiet()
        assert writer.diary.refused.get(one, Reason.RATE_LIMITED).later
        writer.put(wire)
        world.run_until_quiet()
        assert reader.first_deliveries() == [one]
        good = seal_unicast(forger.key, node.address, encode_control(Carried(wire)), ttl_s=0, expiry_min=expiry)
        forger.put(good)
        world.run_until_quiet()
        assert reader.first_deliveries() == [one], "what is carried is known by its own id (R-C8)"


# -- two connections of one key ----------------------------------------------------------------------------------


def test_a_second_connection_of_one_key_replaces_the_first() -> None:
    with World(14) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        reader.habits = replace(reader.habits, settle_s=None)
        world.run_until_quiet()
        ids = writer.publish(world.group("news"), 20)
        world.run(0.2)
        stalled = reader.first_deliveries()
        reader.running = False  # a new process with the same key comes
        second = world.app(node, "second", key=reader.key)
        world.run_until_quiet()
        assert 0 < len(stalled) < 20 and second.first_deliveries() == ids
        assert world.ledger(node).ended("delivered") == {(one, reader.key.public) for one in ids}


@pytest.mark.parametrize("seed", range(8))
def test_when_both_dial_at_once_one_connection_stays(seed: int) -> None:
    with World(seed) as world:
        one, other = world.node("one"), world.node("other")
        cable = world.link(one, other, uplink=True, grants=ALL, both=True)
        world.run(0.7)
        reader, writer = reader_at(world, one), world.app(other)
        world.run_until_quiet()
        lower, higher = sorted((one, other), key=lambda node: node.address)
        ups = [port for port in lower.ports.values() if port.session.peer == higher.address]
        assert len(ups) == 1 and len([*lower.router.links]) == 2
        ids = writer.publish(world.group("news"), 20)
        world.run(0.02)
        world.cut(cable)
        world.run_until_quiet()
        assert reader.first_deliveries() == ids


# -- learned routes (R-C2) ---------------------------------------------------------------------------------------


def test_routes_are_learned_from_accepted_messages_only_and_age() -> None:
    limits = CoreLimits(routes=RouteLimits(per_neighbour_max=2))
    with World(15) as world:
        core = world.node("core", Settings(limits=limits, strangers=True))
        edge, _ = edge_of(world, core, "edge")
        target = world.app(core)
        apps = [world.app(edge) for _ in range(3)]
        forger = world.app(edge)
        world.run_until_quiet()
        expiry = expiry_min(world.time.now().wall_s + 60)
        wire = seal_unicast(forger.key, target.key.public, b"x", ttl_s=60, expiry_min=expiry)
        forger.put(wire[:-1] + bytes((wire[-1] ^ 1,)))
        for app in apps:
            app.send(target.key.public, life_s=60)
        world.run_until_quiet()
        learned = {one.destination for one in core.router.routes}
        assert len(learned) == 2 and learned < {app.key.public for app in apps}, "two of one neighbour, none forged"
        world.run(130)
        assert not len(core.router.routes) and not core.disk.routes
        assert [one.event for one in world.ledger(core).states if one.event.startswith("route")] == [
            "route_add", "route_add", "route_del", "route_del",
        ]  # fmt: skip


def test_a_route_of_a_neighbour_long_gone_gives_way() -> None:
    with World(16) as world:
        core = world.node("core", Settings(limits=CoreLimits(routes=RouteLimits(hold_s=5))))
        east, cable = edge_of(world, core, "east")
        west, _ = edge_of(world, core, "west")
        target, key = world.app(core), world.key()
        at_east, at_west = world.app(east, key=key), world.app(west, key=key)
        world.run_until_quiet()
        at_east.send(target.key.public, life_s=7200)
        world.run_until_quiet()
        at_west.send(target.key.public, life_s=600)  # an earlier expiry: the route stays
        world.run_until_quiet()
        assert [one.neighbour for one in core.router.routes] == [east.address]
        world.part(cable)
        world.run(6)
        at_west.send(target.key.public, life_s=600)
        world.run_until_quiet()
        assert [one.neighbour for one in core.router.routes] == [west.address]
        [one] = target.send(key.public)
        world.run_until_quiet()
        assert one in at_west.diary.handled, "a plan made before the route changed is not used"


def test_an_app_that_moves_is_reached_where_it_has_signed_on_last() -> None:
    with World(18) as world:
        core, key = world.node("core"), world.key()
        edges = [world.node(name) for name in ("east", "west")]
        for edge in edges:
            world.link(edge, core, uplink=True, grants=ALL)
        target = world.app(core)
        for edge in edges:
            app = world.app(edge, key=key)
            world.run(90)
            assert [one.neighbour for one in core.router.routes] == [edge.address]
        [sent] = target.send(key.public)
        world.run_until_quiet()
        assert sent in app.diary.handled


# -- PULL (R-C17) ------------------------------------------------------------------------------------------------


def test_a_missing_message_is_pulled_by_its_id() -> None:
    with World(17) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        world.run_until_quiet()
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        late = reader_at(world, node)
        world.run_until_quiet()
        expiry = expiry_min(world.time.now().wall_s + 600)
        for group in (world.group("news"), world.group("other")):
            body = encode_control(Pull(group.public, message_id(writer.diary.sent[one])))
            late.put(seal_unicast(late.key, node.address, body, ttl_s=0, expiry_min=expiry))
        world.run_until_quiet()
        assert [answer for answer in late.answers if isinstance(answer, Carried)] == [Carried(writer.diary.sent[one])]
        assert reader.first_deliveries() == [one]
