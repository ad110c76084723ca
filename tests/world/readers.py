"""Steps that tests of a world share: a reader that has joined, goes away and comes back, and the ends of messages."""

from __future__ import annotations

from router.core.log.events import Outward
from router.core.routing.limits import CoreLimits, QueueLimits
from router.core.routing.routes import Route
from router.core.wire.crypto import SigningKey
from world.app import App, Habits
from world.node import Node, Settings
from world.world import World

STALLS = Habits(settle_s=None)


def node_with(world: World, called: str = "node", **queues: int) -> Node:
    limits = CoreLimits(queues=QueueLimits(**{"share_percent": 100, **queues}))
    return world.node(called, Settings(limits=limits))


def reader_at(
    world: World, node: Node, name: str = "news", habits: Habits | None = None, *, durable: bool = True
) -> App:
    app = world.app(node, habits=habits, durable=durable)
    app.join(world.group(name))
    world.run_until_quiet()
    assert world.group(name).public in app.joined
    return app


def away(world: World, app: App) -> None:
    app.stop()
    world.run(0.5)


def back(world: World, app: App) -> None:
    app.start()
    world.run_until_quiet()


def ends(world: World, node: Node, ids: list[bytes], app: App) -> list[str]:
    """Return the end of each message for the app; "pending" if it has none."""
    book = world.ledger(node)
    found = []
    for one in ids:
        of_app = book.of_id(one).get(app.key.public)
        found.append("never owed" if of_app is None else of_app[0] if of_app else "pending")
    return found


def outward(node: Node, event: str) -> list[Outward]:
    return [one for _, _, events in node.log for one in events if isinstance(one, Outward) and one.event == event]


def route_to(key: SigningKey, node: Node) -> Route:
    return Route(key.public, node.address, 2_000_000_000)
