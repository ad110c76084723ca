"""Messages that cannot be given to anybody are reported once for each way they come, and then counted."""

from __future__ import annotations

import pytest

from router.client import undeliverable as undeliverable
from router.client.undeliverable import AGAIN_S, UNSEALED, Undeliverable
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text, short

GROUP, VIA = SigningKey(b"g" * 32).public, SigningKey(b"v" * 32).public


class World:
    """A clock, and the reports."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.told: list[str] = []
        self.undeliverable = Undeliverable(self.told.append, lambda: self.now_s)


def test_the_first_is_told_and_the_next_ones_together() -> None:
    world = World()
    for _ in range(5):
        world.undeliverable.note(GROUP, None, UNSEALED)
    name = short(key_text("group", GROUP))
    assert world.told == [f"a message of {name} from this node was given to nobody: {UNSEALED}"]
    world.now_s += AGAIN_S
    world.undeliverable.note(GROUP, None, UNSEALED)
    assert world.told[1:] == [f"5 messages of {name} from this node were given to nobody: {UNSEALED}"]


def test_what_only_differs_by_keys_that_a_sender_chose_is_told_together() -> None:
    world = World()
    for number in range(300):
        world.undeliverable.note(None, VIA, f"it is sealed to the prekey {number:016x}, which is not ours")
    assert len(world.told) == 1


def test_each_way_is_told() -> None:
    world = World()
    for group, via, why in ((GROUP, None, "a"), (GROUP, VIA, "a"), (GROUP, None, "b"), (None, VIA, "a")):
        world.undeliverable.note(group, via, why)
        world.undeliverable.note(group, via, why)
    assert len(world.told) == 4
    assert world.told[3] == f"a message to this app from {short(key_text('addr', VIA))} was given to nobody: a"
    assert repr(world.undeliverable) == "<undeliverable messages: 4 ways they come>"


def test_the_oldest_way_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undeliverable, "WAYS_MAX", 2)
    world = World()
    for why in ("a", "b", "c", "a", "c"):
        world.undeliverable.note(GROUP, None, why)
    assert [line[-1] for line in world.told] == ["a", "b", "c", "a"]
