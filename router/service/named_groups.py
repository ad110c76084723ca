"""The groups that a service has joined by a name, kept in its state: what may be left when the name's link is gone.

The router keeps subscriptions over a restart, so it does not tell which of them a service has joined by a key, which
stays, and which by a name. A state of an earlier program has no such row: then nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import trio

from router.core.wire.crypto import PublicKey
from router.disk.state.environment import StateError
from router.service.host import Service

NAMED_MAX = 1_000
"""Most names that are kept so; the group of one more is not left when its link is removed while the node is stopped."""


class NamedGroups(Mapping[str, PublicKey]):
    """Keys by the names that they were joined by; each change is written at once."""

    def __init__(self, host: Service) -> None:
        self._host = host
        self._writing = trio.Lock()
        self._read: dict[str, bytes] | None = None
        self._is_unwritten = False

    def __repr__(self) -> str:
        return f"<groups that {self._host} has joined by name>"

    @property
    def _keys(self) -> dict[str, bytes]:
        if self._read is None:
            self._read = self._host.state.named_groups()
        return self._read

    def __getitem__(self, name: str) -> PublicKey:
        return PublicKey(self._keys[name])

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._keys))

    def __len__(self) -> int:
        return len(self._keys)

    async def put(self, name: str, key: PublicKey) -> None:
        """Keep that the group was joined by this name."""
        if self._keys.get(name) != key and (name in self._keys or len(self._keys) < NAMED_MAX):
            await self._write({**self._keys, name: bytes(key)})

    async def drop(self, name: str) -> None:
        """Forget a name whose group was left."""
        if name in self._keys:
            await self._write({one: key for one, key in self._keys.items() if one != name})

    async def drop_key(self, key: PublicKey) -> None:
        """Forget the names of a group that was joined by its key, too: it is no longer left with its name."""
        if key in self._keys.values():
            await self._write({one: known for one, known in self._keys.items() if known != key})

    async def rename(self, name: str, other: str) -> None:
        """Keep the group of a name under another one, which the home holds it by now."""
        changed = dict(self._keys)
        changed[other] = changed.pop(name)
        await self._write(changed)

    async def _write(self, keys: dict[str, bytes]) -> None:
        """Write the keys as they are when it is their turn."""
        self._read, self._is_unwritten = keys, True
        async with self._writing:
            if self._is_unwritten:
                self._is_unwritten = False
                try:
                    await trio.to_thread.run_sync(self._host.state.keep_named_groups, self._keys)
                except StateError as error:
                    self._host.log.warning("%s: which groups it has joined by name was not kept: %s", self._host, error)
