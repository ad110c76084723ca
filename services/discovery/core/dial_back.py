"""DIAL_ME and DIALLED: whether other nodes reach this one from outside (R-D23).

`router doctor` asks `reach PORT ROUTER…`; the discovery services of those routers are asked to dial back. A node that
is asked dials only the address that the asker's own link comes from, expects the asker's router there, and does so once
a minute for each asker, so nobody can make it connect to a third party.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from router.core.wire.address import PORT_MAX, IpAddress
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason, reason_from
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core.known import Known
from services.discovery.core.messages import Dialled, DialMe, Message, encode_message

REACH = "reach"
TAG = "dial-back/"
TTL_S = 30
NONCE_BYTES = 16
EVERY_S = 60.0
ASKERS_MAX = 256
ASKED_MAX = 8
ANSWER_S = 15.0
UNKNOWN = "its discovery service is not known here; nodes that exchange advertisements know each other's"
SILENT = "its discovery service has not answered; it may be older, or was asked within the last minute"


class DialBackQuestion(Struct):
    """An operator's question, with its nonce, the routers that have not answered yet, and the rows of those that
    have."""

    number: int
    until_s: float
    asked: dict[bytes, PublicKey] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


class Dial(Struct, frozen=True):
    """A dial requested by an asker's discovery service at `at_s` of the steady clock, and its result."""

    service: PublicKey
    nonce: bytes
    port: int
    at_s: float
    found: d.DialledBack | None = None


class DialBacks:
    """Asks others to dial back, and dials back on request."""

    def __init__(self, setup: c.Setup, known: Known) -> None:
        self._known = known
        self._chance = setup.chance
        self._questions: list[DialBackQuestion] = []
        self._dialled: dict[PublicKey, Dial] = {}  # the last dial of each asker

    def __repr__(self) -> str:
        return f"<{len(self._questions)} questions wait, {len(self._dialled)} askers were dialled lately>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case c.Asked(number, word, argument) if word == REACH:
                return self._ask(number, argument.split(), now)
            case d.DialledBack():
                return list(self._found(heard))
            case c.Tick():
                return [*self._over(now.mono_s), *self._wake(now)]
        return []

    def read(self, message: c.Message, said: Message, now: c.Now) -> list[c.Deed]:
        assert isinstance(said, DialMe | Dialled) and message.source is not None
        if message.via is None:
            return [c.Refuse(Reason.NOT_AUTHORISED, "only another router's discovery service dials back")]
        if isinstance(said, Dialled):
            return self._answered(message.via, said)
        return self._asked(message.via, Dial(message.source, said.nonce, said.port, now.mono_s))

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask(self, number: int, words: list[str], now: c.Now) -> list[c.Deed]:
        question = DialBackQuestion(number, now.mono_s + ANSWER_S)
        deeds = list[c.Deed]()
        try:
            port, *routers = int(words[0]), *(PublicKey(bytes.fromhex(one)) for one in words[1 : 1 + ASKED_MAX])
        except (ValueError, IndexError):
            port, routers = 0, []
        if not routers or not 0 < port <= PORT_MAX:
            return [c.Answer(number, {"error": f"ask `{REACH} PORT ROUTER…`, with keys in hex"})]
        for router in routers:
            service = self._known.service_of(router)
            if service is None:
                question.rows.append(_row(router, "", UNKNOWN))
                continue
            nonce = self._chance.randbytes(NONCE_BYTES)
            question.asked[nonce] = router
            deeds.append(c.Send(service, encode_message(DialMe(nonce, port)), TTL_S, via=router))
        self._questions.append(question)
        return [*deeds, *self._over(now.mono_s), *self._wake(now)]

    def _answered(self, router: PublicKey, said: Dialled) -> list[c.Deed]:
        for question in self._questions:
            if question.asked.get(said.nonce) == router:
                del question.asked[said.nonce]
                why = "" if said.reason is None else said.text or reason_from(said.reason).sentence
                question.rows.append(_row(router, said.at.url, why))
        return list(self._over(0.0))

    def _over(self, mono_s: float) -> Iterator[c.Deed]:
        """Answer the questions that are complete, or whose time is over."""
        for question in list(self._questions):
            if not question.asked or question.until_s <= mono_s:
                self._questions.remove(question)
                silent = [_row(router, "", SILENT) for router in question.asked.values()]
                yield c.Answer(question.number, [*question.rows, *silent])

    def _wake(self, now: c.Now) -> list[c.Deed]:
        if not self._questions:
            return []
        return [c.Wake(now.wall_s + min(one.until_s for one in self._questions) - now.mono_s)]

    # -- dialling back -------------------------------------------------------------------------------------------------

    def _asked(self, router: PublicKey, dial: Dial) -> list[c.Deed]:
        """Dial an asker, or repeat the result of the last minute's dial."""
        self._dialled = {key: one for key, one in self._dialled.items() if dial.at_s - one.at_s < EVERY_S}
        last = self._dialled.get(router)
        if last is None and len(self._dialled) < ASKERS_MAX:
            self._dialled[router] = dial
            return [d.DialBack(router, dial.port, TAG + router.hex())]
        if last is None or last.found is None or last.port != dial.port:
            return [c.Refuse(Reason.RATE_LIMITED, f"this node dials an asker back once in {EVERY_S:.0f} s")]
        return list(_tell(router, replace(dial, found=last.found)))

    def _found(self, heard: d.DialledBack) -> Iterator[c.Deed]:
        router = PublicKey(bytes.fromhex(heard.tag.removeprefix(TAG)))
        if (dial := self._dialled.get(router)) is not None:
            self._dialled[router] = told = replace(dial, found=heard)
            yield from _tell(router, told)


def _tell(router: PublicKey, dial: Dial) -> Iterator[c.Deed]:
    """Send the asker the result; without an address there is none, as its link is gone."""
    found = dial.found
    if found is not None and found.ip:
        said = Dialled(dial.nonce, IpAddress(ip_address(found.ip), dial.port), found.reason, found.text)
        yield c.Send(dial.service, encode_message(said), TTL_S, via=router)


def _row(router: PublicKey, at: str, why: str) -> dict[str, Any]:
    return {"router": router.hex(), "at": at, "why": why}
