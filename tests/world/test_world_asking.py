"""An app that asks its node while messages come in: answer and messages leave with the numbers that they were given."""

from __future__ import annotations

from router.client.composer import Composer
from router.client.custody.outbox import Silent, Submission
from router.client.sequence import Sequences
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.message import message_id
from router.disk.state.app_state import AppState
from world.app import App, Habits
from world.world import World

ROUNDS = 200


def test_what_an_app_refuses_is_what_is_refused() -> None:
    """An answer that overtakes messages must not take the number of one of them, or another message would be settled or
    refused."""
    with World(1) as world:
        node = world.node("core")
        reader = world.app(node, "reader", habits=Habits(settle_s=0.001, refuse=0.4))
        writer = world.app(node, "writer")
        reader.join(world.group("news"))
        world.run_until_quiet()
        for _ in range(ROUNDS):
            ask(reader)
            writer.publish(world.group("news"), 1)
            world.run(world.time.random.random() * 0.01)
        world.run_until_quiet()
        assert len(reader.answers) == ROUNDS
        book, everything = world.ledger(node), {bytes(message_id(wire)) for wire in writer.diary.sent.values()}
        delivered, refused = ({id for id, whom in book.ended(end)} for end in ("delivered", "refused"))
        assert delivered == set(reader.diary.handled), "an app is told to have what it refused"
        assert refused == everything - delivered


def ask(app: App) -> None:
    """Ask the app's node for its status; the answer is a message of the node's own."""
    composer = Composer(app.key, Sequences(AppState.memory()), app._wall_s, app.time.random.randbytes)
    app._outbox.add(Submission(composer.control(app.router, encode_inquiry(Inquiry("status"))), Silent(), again=False))
    app._speak()
