"""A home is copied and both copies run, among crashes and cuts, until the operator keeps one of them."""

from __future__ import annotations

import pytest

from router.client.composer import Composer
from router.client.custody.outbox import Silent, Submission
from router.client.sequence import Sequences
from router.core.log.events import Event, RouterChange
from router.core.wire.admin import Inquiry, encode_inquiry
from router.disk.state.app_state import AppState
from world import ledger
from world.app import App, Habits
from world.node import Node, Settings
from world.test_world import ALL, readers_of, seeds
from world.test_world_restores import numbers, trouble
from world.world import World

QUICK, LONG = 2, 60
SAID_WITHIN_S = 60.0


def keep(app: App) -> None:
    """Let the operator at the app's node keep that one, as `router copy keep` does."""
    composer = Composer(app.key, Sequences(AppState.memory()), app._wall_s, app.time.random.randbytes)
    wire = composer.control(app.router, encode_inquiry(Inquiry("copy", "keep")))
    app._outbox.add(Submission(wire, Silent(), again=False))
    app._speak()


def are_told_apart(one: Node, other: Node) -> bool:
    """Whether one of the two has stopped, and the other one knows of it."""
    return {node.router.copies.is_barred for node in (one, other)} == {True, False} and all(
        node.router.copies.problem for node in (one, other)
    )


def begins_a_life(event: Event) -> bool:
    """Whether this says that the numbers of a new life begin."""
    return isinstance(event, RouterChange) and "life_seq" in dict(event.fields)


@pytest.mark.parametrize("name", ["core", "west"])
@pytest.mark.parametrize("seed", seeds(QUICK, LONG))
def test_of_two_copies_one_stops_within_a_minute_and_what_the_kept_one_accepted_arrives_once(
    seed: int, name: str
) -> None:
    """The core passes on all that the edge west reads. What only the other one accepted is lost with it, as the
    operator is told."""
    with World(seed) as world:
        settings = Settings(claims=True)
        core, *edges = nodes = [world.node(name, settings) for name in ("core", "east", "west")]
        cables = [world.link(edge, core, uplink=True, grants=ALL) for edge in edges]
        readers = readers_of(world, edges, Habits(die=0.02, settle_s=0.3))
        writer, reader = world.app(edges[0], "writer"), readers[-1]
        kept = next(node for node in nodes if node.name == name)
        operator = world.app(kept, "operator")
        ids, letters = list[bytes](), list[bytes]()

        def go_on(rounds: int) -> None:
            for _ in range(rounds):
                ids.extend(writer.publish(world.group("news"), 20))
                letters.extend(writer.send(reader.key.public, 3))
                trouble(world, cables, [node for node in nodes if node.takes_links])
                world.run(world.time.random.random() * 1.5)

        go_on(4)
        copy = world.copy(kept)
        shared = len(copy.log)
        nodes.append(copy)
        go_on(4)
        for _ in range(int(SAID_WITHIN_S)):
            if kept.alive and copy.alive and are_told_apart(kept, copy):
                break
            world.run(1.0)
        assert are_told_apart(kept, copy)
        world.crash(copy, back_s=None)
        nodes.remove(copy)
        for _ in range(int(SAID_WITHIN_S)):
            if kept.router.copies.found is None:
                break
            keep(operator)
            world.run(1.0)
        assert kept.router.copies.found is None, "a life that is later than both is nobody's copy"
        go_on(4)
        world.run_until_quiet()

        lost = ledger.accepted(copy.log[shared:]) - ledger.accepted(kept.log)
        assert set(writer.diary.settled) == {*ids, *letters} and not writer.diary.refused
        assert not ({*ids, *letters} - lost).difference(reader.diary.handled)
        # What the stopped one keeps comes when it goes on, after what has gone by its copy.
        early = ledger.accepted(copy.log[shared:])
        for sent in (ids, letters):
            owed = [id for id in sent if id not in early]
            assert [id for id in reader.first_deliveries() if id in set(owed)] == owed
        life = max(at for at, (_, _, events) in enumerate(kept.log) if any(map(begins_a_life, events)))
        for used in zip(numbers(kept.log[life:]), numbers(copy.log[shared:]), strict=True):
            assert not {*used[0]} & {*used[1]}, "a number was used in two lives"
