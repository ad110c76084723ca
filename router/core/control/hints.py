"""Hints: routers that serve a group, as apps of this node and its clients name them (R-C28).

They are passed on with SUB to the pub/sub service of this node, and after JOIN to its uplinks. For each group the
latest hint of an app and the latest of a client are kept while the group is wanted, as rows of the store, because the
member that gave them may be away when the node starts again. Apps and clients that publish in a group need not have
joined it: of groups that nobody here has joined the latest hints are kept, for the service to take part in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import cbor2

from router.core.neighbours.directory import Standing
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.address import AddressSource, refusal_of
from router.core.wire.crypto import PublicKey
from router.core.wire.hint import TO_ROUTER, Hint, Hinted, decode_hint, encode_hint

HINTS = b"h"
UNJOINED_MAX = {AddressSource.HINT: 1_024, AddressSource.ANYBODY: 256}
"""Most groups that nobody here has joined and of which hints of apps, and of clients, are kept; the oldest go first."""


class Hints:
    """The hints of each group; hints forgotten and learned are changes of the store's book."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._pending = kernel.pending
        self._by_group: dict[bytes, dict[AddressSource, Hinted]] = {}
        self._unjoined: dict[AddressSource, dict[bytes, None]] = {source: {} for source in UNJOINED_MAX}

    def __repr__(self) -> str:
        return f"<hints about {len(self._by_group)} groups>"

    def of(self, group: bytes) -> Iterator[Hinted]:
        """Yield the hints of the group, those of apps first."""
        found = self._by_group.get(group, {})
        yield from (found[source] for source in (AddressSource.HINT, AddressSource.ANYBODY) if source in found)

    def heard(self, link: Link, said: Hinted) -> bool:
        """Handle a HINT of an app or client that has joined the group, not for this node alone, or that may publish;
        return whether it says anything new."""
        joined, is_wanted = self._groups.get(said.group, link.key), self._groups.is_wanted(said.group)
        may_say = self._directory.may_publish(link.key, link.standing) if joined is None else is_wanted
        if not may_say or link.standing not in (Standing.LOCAL, Standing.CLIENT):
            return False
        source = AddressSource.HINT if link.standing is Standing.LOCAL else AddressSource.ANYBODY
        kept = Hinted(said.group, tuple(self._that_count(said.hints, source)))
        known = self._by_group.get(said.group, {})
        if not kept.hints or known.get(source) == kept:
            return False
        self._by_group[said.group] = {**known, source: kept}
        self._write(said.group)
        if not is_wanted:
            self._keep_unjoined(said.group, source)
        return True

    def unjoined(self, most: int) -> list[bytes]:
        """Return the groups that nobody here has joined and of which there are hints, at most so many of the latest."""
        groups = dict.fromkeys(group for one in self._unjoined.values() for group in reversed(one))
        return list(islice((group for group in groups if not self._groups.is_wanted(group)), most))

    def forget(self, group: bytes) -> None:
        """Forget the hints of a group that is not wanted any more."""
        for one in self._unjoined.values():
            one.pop(group, None)
        if self._by_group.pop(group, None) is not None:
            self._write(group)

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the rows of the store."""
        for key, value in rows:
            if key[:1] == HINTS:
                found = {AddressSource[name]: decode_hint(body) for name, body in cbor2.loads(value).items()}
                self._by_group[PublicKey(key[1:])] = found
                for source in found:
                    self._unjoined[source][key[1:]] = None  # one that is wanted counts, and is not forgotten

    def _keep_unjoined(self, group: bytes, source: AddressSource) -> None:
        """Record a group of which a hint is kept though nobody here has joined it, and forget the oldest of too
        many."""
        kept = self._unjoined[source]
        kept.pop(group, None)
        kept[group] = None
        while len(kept) > UNJOINED_MAX[source]:
            oldest = next(iter(kept))
            del kept[oldest]
            if not self._groups.is_wanted(oldest):
                self._by_group[oldest].pop(source, None)
                self._write(oldest)

    def _that_count(self, hints: Iterable[Hint], source: AddressSource) -> Iterator[Hint]:
        """Yield the routers other than this one that may be dialled, with the addresses that may be named (R-D12).

        An app of this machine may name loopback, since its uplink may be on this machine too; the node that dials
        judges this."""
        on_loopback = source is AddressSource.HINT or self._directory.is_on_loopback
        for router, addresses in hints:
            named = [one for one in addresses if refusal_of(one, source, on_loopback=on_loopback) is None]
            if named and router != self._directory.me and not self._directory.is_blocked(router):
                yield Hint(router, tuple(named))

    def _write(self, group: bytes) -> None:
        found = self._by_group.get(group)
        if found is not None and not found:
            del self._by_group[group]
        rows = {source.name: encode_hint(one, TO_ROUTER) for source, one in (found or {}).items()}
        self._pending.changes.book[HINTS + group] = cbor2.dumps(rows) if rows else None
