"""The groups that an app names: the keys to publish and to read in each, and the causes of its next message there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import trio

from router.client.composer import GroupSender
from router.client.custody.causes import Causes
from router.client.journal import Journal
from router.client.ordering import Ordering
from router.client.state_writer import nothing
from router.core.wire.application import content_key_id
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.lifetime import expiry_s
from router.core.wire.link_text import is_link
from router.core.wire.text import BadText, parse_key
from router.settings import keyring
from router.settings.home import Home
from router.settings.keyring import KeyringError

GroupName = str | GroupLink | PublicKey | SigningKey


class GroupKeys:
    """The data for reading one group: the keys that open its bodies (none: they are unsealed), and its causes."""

    def __init__(self, content_key: bytes | None, causes: Causes) -> None:
        self.keys: Mapping[bytes, bytes] = {} if content_key is None else {content_key_id(content_key): content_key}
        self.causes = causes


class Senders:
    """Finds groups in a home, and remembers how each is read. `recent`: how many of the newest messages the header of
    the next one names; `journal` has the causes that an earlier run of this app has left."""

    def __init__(self, home: Home, recent: int, ordering: Ordering, journal: Journal) -> None:
        self._home = home
        self._recent = recent
        self._ordering = ordering
        self._journal = journal
        self._keys: dict[PublicKey, GroupKeys] = {}
        self._looked_up: set[PublicKey] = set()  # those of them that nobody has named or joined in this run
        self._as_published: set[PublicKey] = set()

    def __repr__(self) -> str:
        return f"<{len(self._keys)} groups named, of {self._home.path}>"

    def of(self, group: GroupName) -> tuple[GroupSender, str | None]:
        """Return the sender of that group, and its name in the home."""
        if isinstance(group, str):
            return self._of_text(group)
        if isinstance(group, GroupLink):
            return GroupSender.of_link(group, self._causes(group.group)), group.name
        if isinstance(group, SigningKey):
            return GroupSender(group.public, group, None, self._causes(group.public)), None
        if isinstance(group, PublicKey):
            return GroupSender(group, None, None, self._causes(group)), None
        raise TypeError(f"a group is given as its name, link or key, not as {type(group).__name__}")

    async def found(self, group: GroupName) -> tuple[GroupSender, str | None]:
        """Do what `of` does, with the home's files read in a thread."""
        if not isinstance(group, str) or is_link(group) or keyring.is_at_hand(self._home, group):
            return self.of(group)
        name, link = await trio.to_thread.run_sync(self._in_home, group)
        return self.of(link)[0], name

    def _of_text(self, text: str) -> tuple[GroupSender, str | None]:
        if is_link(text):
            return self.of(parse_link(text))
        name, link = self._in_home(text)
        return self.of(link)[0], name

    def _in_home(self, text: str) -> tuple[str | None, GroupLink | PublicKey]:
        """Return name and link of a group of the home; the key alone if another group is given by it."""
        try:
            return keyring.find(self._home, text)
        except KeyringError:
            try:
                return None, parse_key(text, "group")
            except BadText:
                pass
            raise

    # -- how groups are read -------------------------------------------------------------------------------

    def keys(self, group: PublicKey) -> GroupKeys:
        """Return the keys to read a group; one that only an earlier run has joined is found by its name in the home."""
        known = self._keys.get(group)
        if known is None:
            sender, _ = self.of(group if group in self._as_published else group.hex())
            known = self._keys[group] = GroupKeys(sender.content_key, sender.causes)
            self._looked_up.add(group)
        return known

    def as_published(self, groups: Collection[PublicKey], others: Collection[PublicKey] = ()) -> None:
        """Read groups that are not joined as they were published, also if the home has their keys; the `others` by
        those keys again."""
        self._as_published.difference_update(others)
        self._as_published.update(groups)
        for group in self._looked_up.intersection((*groups, *others)):
            self._looked_up.remove(group)
            del self._keys[group]

    def named(self, group: PublicKey, keys: GroupKeys) -> None:
        """Read a group with these keys, unless others are in use."""
        self._keys.setdefault(group, keys)
        self._looked_up.discard(group)

    def joined(self, group: PublicKey, keys: GroupKeys) -> None:
        """Read a group with these keys from now on."""
        self._keys[group] = keys
        self._looked_up.discard(group)

    def _causes(self, group: PublicKey) -> Causes:
        known = self._keys.get(group)
        if known is not None:
            return known.causes
        given = self._ordering.given
        return Causes(self._recent, self._journal.heads(group), given.add, partial(self._kept, group))

    def _kept(self, group: PublicKey, id: MessageId, until_min: int) -> None:
        """Record that a message of this app is in custody: with a journal, a later run knows that it need not wait for
        it."""
        if self._journal.is_open and self._ordering.has(group):
            self._journal.gather([(id, expiry_s(until_min))], nothing)
