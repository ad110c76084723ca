"""The sampler: a uniform sample of the routers heard lately, however often each was heard.

Each id has a rank, its hash under a secret, and the memory holds those with the lowest ranks of all that were heard
(min-wise sampling: Broder, Charikar, Frieze, Mitzenmacher 1998; for peer sampling: "Brahms", Bortnikov, Gurevich,
Keidar, Kliot, Shraer 2009). An id that is heard again is in the memory or not, as after the first time: frequent
senders gain nothing, and an attacker's identities have no greater share of the sample than of the ids heard.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container
from hashlib import blake2b

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.discovery.core.view import Advertised, ViewEntry

RANK_BYTES = 16
SECRET_BYTES_MAX = 64

Rank = tuple[bytes, PublicKey]


class SamplerLimits(Struct, frozen=True):
    """The sizes of the memory and of a draw from it; the most periods since its members were heard of first-hand; and
    the number of periods for which ranks hold."""

    memory: int = 256
    drawn: int = 20
    age_max: int = 100
    ranks_periods: int = 360


class StreamSampler:
    """Samples the advertisements heard. Times are counted in periods of the node."""

    __slots__ = ("_asked", "_chance", "_entries", "_limits", "_ranked", "_secret", "_since")

    def __init__(self, secret: bytes, chance: Chance, limits: SamplerLimits) -> None:
        if not 1 <= len(secret) <= SECRET_BYTES_MAX:
            raise ValueError(f"the secret of ranks has 1 to {SECRET_BYTES_MAX} bytes, not {len(secret)}")
        self._secret = secret
        self._chance = chance
        self._limits = limits
        self._entries: dict[PublicKey, tuple[int, Advertised]] = {}  # the period of its youngest news, and what it says
        self._ranked: list[Rank] = []
        self._asked: dict[PublicKey, int] = {}  # the period in which each was asked last, of those in the memory
        self._since = 0  # the period since which the ranks hold

    def __repr__(self) -> str:
        return f"<sampler with {len(self._entries)} of {self._limits.memory}>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def memory(self) -> tuple[Advertised, ...]:
        return tuple(advert for _, advert in self._entries.values())

    def hear(self, entry: ViewEntry, period: int) -> None:
        """Let an entry into the memory if its rank is low enough; of a known one keep the newest."""
        if entry.age > self._limits.age_max:
            return
        key, born = entry.advert.key, period - entry.age
        known = self._entries.get(key)
        if known is not None:
            advert = entry.advert if entry.advert.rev > known[1].rev else known[1]
            self._entries[key] = max(born, known[0]), advert
            return
        rank = self._rank(key)
        if len(self._ranked) >= self._limits.memory:
            if rank >= self._ranked[-1]:
                return
            self.forget(self._ranked[-1][1])
        insort(self._ranked, rank)
        self._entries[key] = born, entry.advert

    def pass_period(self, period: int, wall_s: float) -> None:
        """Forget what is too old or has expired; after a while, rank anew."""
        oldest = period - self._limits.age_max
        for key in [key for key, (born, one) in self._entries.items() if born < oldest or one.exp <= wall_s]:
            self.forget(key)
        if period - self._since >= self._limits.ranks_periods:
            self._since = period
            self._secret = blake2b(b"next", key=self._secret).digest()
            self._ranked = sorted(map(self._rank, self._entries))

    def draw(self) -> tuple[Advertised, ...]:
        """Return some of the memory, at random."""
        memory = self.memory
        return tuple(self._chance.sample(memory, min(self._limits.drawn, len(memory))))

    def pick(self, count: int, period: int, but: PublicKey | None = None) -> tuple[ViewEntry, ...]:
        """Return some entries of the memory at random with their ages, but not this key."""
        drawn = self._chance.sample(list(self._entries), min(count + 1, len(self._entries)))
        found = (self._entries[key] for key in [key for key in drawn if key != but][:count])
        return tuple(ViewEntry(max(0, period - born), advert) for born, advert in found)

    def next_asked(self, period: int, but: Container[PublicKey] = ()) -> Advertised | None:
        """Return whom to ask in this period: none of these keys, and of the others one that was asked least lately.

        In turn, since some may answer with nothing but their own side: none of these is asked again before all."""
        turns = [(self._asked.get(key, 0), key) for key in self._entries if key not in but]
        least = min(turns, default=(0,))[0]
        waiting = [key for turn, key in turns if turn == least]
        if not waiting:
            return None
        key = waiting[self._chance.randrange(len(waiting))]
        self._asked[key] = period
        return self._entries[key][1]

    def forget(self, key: PublicKey) -> None:
        """Take a key out of the memory."""
        self._asked.pop(key, None)
        if self._entries.pop(key, None) is not None:
            del self._ranked[bisect_left(self._ranked, self._rank(key))]

    def _rank(self, key: PublicKey) -> Rank:
        return blake2b(key, digest_size=RANK_BYTES, key=self._secret).digest(), key
