"""Which renewals of keys are believed (cddl/renewal.cddl, cddl/succession.cddl): a router and an app judge alike.

The first statement for an old key that this key and a new one have signed is believed, for good: who steals the old
key later leads nobody elsewhere by it. Another one for the same old key is not believed, and told, because one of both
is a thief's; neither is a circle, nor a key that takes the place of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Generic, Protocol, TypeVar

from router.core.wire.crypto import PublicKey
from router.core.wire.succession import FOLLOWED_MAX

CLOCK_SLACK_S = 86_400
"""How far ahead a renewal may begin: clocks may differ by a day."""
RENEWALS_MAX = 4096
"""The most renewals that are believed. None is forgotten for another, else a second one for its old key would be
believed: further ones are refused."""


class RenewalVerdict(Enum):
    """What was made of a statement: whether it is believed, and a sentence for people."""

    NEWS = True, "the key is renewed"
    KNOWN = True, "that the key is renewed was known already"
    FORGED = False, "the statement is not signed by both keys"
    AHEAD = False, "the statement begins more than a day ahead of the clock here; set the clock that is wrong"
    OTHER = (
        False,
        "another key has taken the place of the old one already, by a statement that both had signed; who has \
the old key has tried to renew it again, so one of both statements is a thief's: ask its owner in another way",
    )
    CIRCLE = False, "the new key is one that the old one has taken the place of"
    OFTEN = (
        False,
        f"{FOLLOWED_MAX} keys of that node have followed each other here, which is the most: have its entry removed \
here, and this node added",
    )
    TAKEN = False, "the new key has taken the place of another one already; make a key for each"
    FULL = (
        False,
        f"{RENEWALS_MAX} renewals are known here, which is the most; of addresses that were never written to, half as \
many are",
    )

    def __init__(self, is_believed: bool, sentence: str) -> None:
        self.is_believed = is_believed
        self.sentence = sentence


class SaysRenewed(Protocol):
    """A statement that `new` has the place of `old` from the Unix second `from_s` on: an app's or a node's."""

    @property
    def old(self) -> PublicKey: ...
    @property
    def new(self) -> PublicKey: ...
    @property
    def from_s(self) -> int: ...
    def verify(self) -> bool: ...


Said = TypeVar("Said", bound=SaysRenewed)


class Renewals(Generic[Said]):
    """The renewals that are believed, by old key; of each the first that was heard."""

    def __init__(self, believed: Iterable[Said] = ()) -> None:
        self._by_old = {bytes(one.old): one for one in believed}
        self._by_new = {bytes(one.new): one for one in self._by_old.values()}

    def __repr__(self) -> str:
        return f"<{len(self._by_old)} renewed keys>"

    def __iter__(self) -> Iterator[Said]:
        return iter(self._by_old.values())

    def __len__(self) -> int:
        return len(self._by_old)

    def __contains__(self, key: bytes) -> bool:
        """Whether another key has taken this one's place."""
        return key in self._by_old

    def of(self, old: bytes) -> Said | None:
        return self._by_old.get(old)

    def newest(self, key: bytes) -> bytes:
        """Return the key that has the place of this one now: itself, if it was not renewed."""
        while (one := self._by_old.get(key)) is not None:
            key = bytes(one.new)
        return key

    def hear(self, said: Said, now_s: int) -> RenewalVerdict:
        """Judge a statement, and keep it if it is believed and news. Statements of a chain may come in any order."""
        verdict = self.judge(said, now_s)
        if verdict is RenewalVerdict.NEWS:
            self._by_old[bytes(said.old)] = self._by_new[bytes(said.new)] = said
        return verdict

    def judge(self, said: Said, now_s: int) -> RenewalVerdict:
        """Return what `hear` would make of a statement."""
        known = self._by_old.get(said.old)
        if not said.verify():
            return RenewalVerdict.FORGED
        if known is not None:
            return RenewalVerdict.KNOWN if known.new == said.new else RenewalVerdict.OTHER
        if said.from_s > now_s + CLOCK_SLACK_S:
            return RenewalVerdict.AHEAD
        if self.newest(said.new) == said.old:
            return RenewalVerdict.CIRCLE
        if said.new in self._by_new:
            return RenewalVerdict.TAKEN
        return RenewalVerdict.NEWS if len(self._by_old) < RENEWALS_MAX else RenewalVerdict.FULL
