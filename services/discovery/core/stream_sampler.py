"""The stream sampler: a uniform sample of the ids heard, however often each of them is sent.

The knowledge-free strategy of the uniform node sampling service (Anceaume, Busnel, Sericola, "Uniform node sampling
service robust against collusions of malicious nodes", 2013): an id that the sketch has counted f times enters the
memory with probability least / f, in place of a random one. What is sent more often enters no more often.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.discovery.core.advertised import Advertised
from services.discovery.core.sketches import CountMin, Distinct, KeyedHash


@dataclass(frozen=True, slots=True)
class SamplerLimits:
    """The size of the sketch, of the memory, and of what is drawn (D21).

    The sketch's width is a quarter of the ids heard in the time of one sketch, within `width_min` and `width_max`.
    """

    rows: int = 10
    width_min: int = 250
    width_max: int = 25_000
    sketch_s: float = 3_600.0
    memory: int = 50
    drawn: int = 20


class StreamSampler:
    """Samples the advertisements heard.

    A sketch counts for an hour beside its predecessor before it alone decides, so that a renewal forgets nobody's
    frequency at once.
    """

    __slots__ = ("_chance", "_distinct", "_hash", "_limits", "_memory", "_next", "_places", "_renew_s", "_sketch")

    def __init__(self, secret: bytes, chance: Chance, limits: SamplerLimits) -> None:
        self._hash = KeyedHash(limits.rows, secret)
        self._chance = chance
        self._limits = limits
        self._memory: list[Advertised] = []
        self._places: dict[PublicKey, int] = {}
        self._sketch = CountMin(limits.rows, limits.width_min)
        self._next: CountMin | None = None
        self._distinct = Distinct()
        self._renew_s: float | None = None

    def __repr__(self) -> str:
        return f"<sampler with {len(self._memory)} of {self._limits.memory} and a {self._sketch!r}>"

    def __len__(self) -> int:
        return len(self._memory)

    @property
    def memory(self) -> tuple[Advertised, ...]:
        return tuple(self._memory)

    @property
    def width(self) -> int:
        """The width of the sketch that decides."""
        return self._sketch.width

    def hear(self, advert: Advertised, mono_s: float) -> None:
        """Count an advertisement, and let it enter the memory as its count allows."""
        self._renew(mono_s)
        hashed = self._hash(advert.key)
        self._distinct.add(hashed)
        count = self._sketch.add(hashed)
        if self._next is not None:
            self._next.add(hashed)
        place = self._places.get(advert.key)
        if place is not None:
            if advert.rev > self._memory[place].rev:
                self._memory[place] = advert
        elif len(self._memory) < self._limits.memory:
            self._places[advert.key] = len(self._memory)
            self._memory.append(advert)
        elif self._chance.random() * count < self._sketch.least:
            self._replace(self._chance.randrange(len(self._memory)), advert)

    def draw(self, wall_s: float) -> tuple[Advertised, ...]:
        """Return some of the memory, at random and without what has expired."""
        for advert in [one for one in self._memory if one.exp <= wall_s]:
            self.forget(advert.key)
        return tuple(self._chance.sample(self._memory, min(self._limits.drawn, len(self._memory))))

    def forget(self, key: PublicKey) -> None:
        """Take a key out of the memory; its count stays."""
        place = self._places.pop(key, None)
        if place is None:
            return
        last = self._memory.pop()
        if last.key != key:
            self._memory[place] = last
            self._places[last.key] = place

    def _replace(self, place: int, advert: Advertised) -> None:
        del self._places[self._memory[place].key]
        self._memory[place] = advert
        self._places[advert.key] = place

    def _renew(self, mono_s: float) -> None:
        if self._renew_s is None:
            self._renew_s = mono_s + self._limits.sketch_s
        if mono_s < self._renew_s:
            return
        self._renew_s = mono_s + self._limits.sketch_s
        width = min(self._limits.width_max, max(self._limits.width_min, len(self._distinct) // 4))
        self._sketch, self._next = self._next or self._sketch, CountMin(self._limits.rows, width)
        self._distinct = Distinct()
