"""Apps that publish and read in causal order, and the checks of what each has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from msgspec.structs import replace
from rig import NodeProcess, new_key
from rigs.patience import HANG_S

from router import Group, connect
from router.client.received import Received
from router.core.wire.grouplink import GroupLink
from router.demo.said import TalkMessage, read_body, too_early


@dataclass
class Talk:
    """The messages that an app has published and read in one group; `read` is in the order of reading."""

    group: Group
    published: list[bytes] = field(default_factory=list)
    read: list[bytes] = field(default_factory=list)
    order: list[TalkMessage] = field(default_factory=list)
    read_of: Counter[str] = field(default_factory=Counter)
    gaps: list[str] = field(default_factory=list)

    def take(self, message: Received) -> None:
        said = read_body(message.body)
        self.read.append(bytes(message.id))
        self.order.append(said)
        self.read_of[said.by] += 1
        if message.missing or message.late:
            missing = ", ".join(id.hex()[:8] for id in message.missing)
            self.gaps.append(f"{said.by} {said.number} ({message.id.hex()[:8]}) lacks {missing}, late: {message.late}")


class Talker:
    """An app of a node, which stays subscribed while its node comes and goes."""

    def __init__(self, node: NodeProcess, groups: Iterable[GroupLink]) -> None:
        self.node = node
        self.name = node.name
        self._links = {one.group: one for one in groups}
        self.key = new_key()
        self.talks: dict[bytes, Talk] = {}

    @asynccontextmanager
    async def running(self, nursery: trio.Nursery) -> AsyncIterator[Talker]:
        async with connect(home=self.node.home, key=self.key, when_down="queue", patience_s=HANG_S) as app:
            ordering = app._readers.ordering  # its apps are there from the beginning: no message is from before
            ordering.limits = replace(ordering.limits, old_s=HANG_S)
            for group, link in self._links.items():
                self.talks[group] = Talk(await app.join(link, order="causal", gap_s=HANG_S))
                nursery.start_soon(self._read, self.talks[group])
            yield self

    async def _read(self, talk: Talk) -> None:
        async for message in talk.group:
            talk.take(message)

    async def publish(self, talk: Talk) -> None:
        said = TalkMessage(self.name, len(talk.published) + 1, dict(talk.read_of))
        talk.published.append(bytes(await talk.group.publish(said.body())))


def lacking(talkers: Iterable[Talker]) -> dict[str, int]:
    """Return how many messages of its groups each app has not read yet."""
    found = {one.name: sum(len(expected - set(had)) for had, expected in _each(one, talkers)) for one in talkers}
    return {name: count for name, count in found.items() if count}


def check(talkers: Iterable[Talker]) -> None:
    """Check that each app has read the messages of the others in its groups, once and in causal order."""
    for one in talkers:
        for had, expected in _each(one, talkers):
            assert set(had) == expected and len(had) == len(expected), f"{one.name}: something lost or doubled"
        for talk in one.talks.values():
            assert not talk.gaps, f"{one.name}: {talk.gaps[:5]}"
            assert too_early(talk.order, one.name) == [], one.name


def _each(one: Talker, talkers: Iterable[Talker]) -> Iterable[tuple[list[bytes], set[bytes]]]:
    """Yield for each group the messages that an app has read and those that it must read."""
    for group, talk in one.talks.items():
        others = [each.talks[group] for each in talkers if each is not one and group in each.talks]
        yield talk.read, {id for each in others for id in each.published}
