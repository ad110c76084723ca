"""Discovery: routers find each other by what they say of themselves, signed with their keys.

The service is made of parts, each with a duty of its own; all of them share `Known`. A part hears what concerns it and
answers with deeds, as rules do; its `Wake` is its own, so it hears `Tick` when that time has come.

    OnLan          datagrams on local networks: which routers are near
    InCommon       MEET and MET: which groups are in common with the routers nearby
    Own            the advertisement of this node's router, for exchanges
    Exchanges      SAMPLE and SAMPLED: which routers there are
    DialBacks      DIAL_ME and DIALLED: whether this node is reached from outside
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.core.wire.advert import Advertisement
from router.core.wire.codec import Malformed
from router.core.wire.invitation import parse_peer_link
from router.core.wire.meeting import Meet, Met
from router.core.wire.reasons import Reason
from router.core.wire.text import BadText
from router.service import contract as c
from services.discovery.core.dial_back import DialBacks
from services.discovery.core.exchanges import Exchanges
from services.discovery.core.known import SERVICE, Known
from services.discovery.core.lan.part import OnLan
from services.discovery.core.messages import Dialled, DialMe, Message, Sample, Sampled, UnknownMessage, decode_message
from services.discovery.core.own import Own
from services.discovery.core.parts import Part, Reader
from services.discovery.core.sampling import SamplingLimits
from services.discovery.core.shared_groups import InCommon
from services.discovery.settings import Settings


def seeds(links: Iterable[str]) -> list[Advertisement]:
    """Return the advertisements in links of the settings; their times do not count, as the operator wrote them.

    Raise `BadText` for what is no link of a node that runs discovery."""
    return [_seed(link, f"services.discovery.seeds[{at}]") for at, link in enumerate(links)]


def _seed(link: str, place: str) -> Advertisement:
    remedy = "write the link that `router id --link` prints there"
    try:
        found = parse_peer_link(link)
    except BadText as error:
        raise BadText(f"{place}: {error}") from None
    if not isinstance(found, Advertisement):
        raise BadText(f"{place} is an invitation, which `router peer add` takes; {remedy}")
    if SERVICE not in found.services:
        raise BadText(f"{place} names no discovery service, so nobody could be asked there; {remedy} once it runs one")
    return found


class Discovery:
    """`readers`: which part reads messages of which type."""

    def __init__(self, setup: c.Setup) -> None:
        settings: Settings = setup.settings
        self.known = Known()
        self.lan, common, dial_backs = (
            OnLan(setup, self.known), InCommon(setup, self.known), DialBacks(setup, self.known),
        )  # fmt: skip
        self.parts: tuple[Part, ...] = self.lan, common, dial_backs
        self.readers: dict[type[Message], Reader] = {
            Meet: common, Met: common, DialMe: dial_backs, Dialled: dial_backs,
        }  # fmt: skip
        if settings.sampling:
            limits = SamplingLimits(settings.period_s, answer_s=min(settings.period_s, SamplingLimits().answer_s))
            exchanges = Exchanges(setup, self.known, seeds(settings.seeds), limits)
            self.parts = (*self.parts, Own(self.known), exchanges)
            self.readers |= {Sample: exchanges, Sampled: exchanges}
        self._wakes: dict[int, float] = {}

    def doors(self) -> dict[str, str]:
        return self.lan.doors()

    def admits(self, came: c.Came, mono_s: float) -> bool:
        """Whether a datagram of a local network is worth being heard."""
        return self.lan.admits(came, mono_s)

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Message):
            return [*self._read(heard, now), *self._next_wake()]
        if isinstance(heard, c.Started):
            self.known.router = heard.router
        due = [at for at, wake_s in self._wakes.items() if wake_s <= now.wall_s]
        for at in due if isinstance(heard, c.Tick) else ():
            del self._wakes[at]
        concerned = due if isinstance(heard, c.Tick) else range(len(self.parts))
        deeds = [deed for at in concerned for deed in self._of_part(at, self.parts[at].hear(heard, now))]
        if isinstance(heard, c.Asked) and not deeds:
            deeds = [c.Answer(heard.number, {"error": f'discovery has no answer to "{heard.word}" now'})]
        return [*deeds, *self._next_wake()]

    def _read(self, message: c.Message, now: c.Now) -> Iterator[c.Deed]:
        if message.source is None:
            return
        try:
            said = decode_message(message.body)
        except UnknownMessage as error:
            yield c.Refuse(Reason.UNSUPPORTED, str(error))
            return
        except Malformed as error:
            yield c.Refuse(Reason.MALFORMED, str(error))
            return
        reader = self.readers.get(type(said))
        if reader is None:
            yield c.Refuse(Reason.UNSUPPORTED, f"this node hears no {type(said).__name__}")
            return
        yield from self._of_part(self.parts.index(reader), reader.read(message, said, now))

    def _of_part(self, at: int, deeds: list[c.Deed]) -> Iterator[c.Deed]:
        """Yield a part's deeds but for its `Wake`, which is noted: of all parts, the earliest counts."""
        for deed in deeds:
            if isinstance(deed, c.Wake):
                self._wakes[at] = deed.at_s
            else:
                yield deed

    def _next_wake(self) -> list[c.Deed]:
        return [c.Wake(min(self._wakes.values()))] if self._wakes else []
