"""A router that lets guests in, as values: its operator, its guests, and the file that grants are written into."""

from __future__ import annotations

import json
from typing import Any

from samples.core import ALICE

from rigs.one_router import ME, WALL_S, OneRouter
from router.core.log.events import RouterChange
from router.core.neighbours.directory import Neighbour, Standing
from router.core.routing.effects import LookAtFile, WriteGuests
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey, digest
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Unicast, open_message, seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.redemption import Redeem, Redeemed, decode_redemption, encode_redemption

ANNA, BERTA, CARLA = (SigningKey(bytes((n,)) * 32) for n in (71, 72, 73))
SECRET, OTHER = b"s" * 16, b"o" * 16
ID = digest(SECRET).hex()
HOUR_S, DAY_S = 3600, 86_400
EXPIRY = expiry_min(WALL_S + HOUR_S)


class House(OneRouter):
    """A router with an operator: Alice, on the owner's socket."""

    def __init__(self, *known: Neighbour, **more: Any) -> None:
        super().__init__(*known, locals=[ALICE.public], **more)
        self.router.directory.public = frozenset({bytes(ALICE.public)})
        self.operator = self.link(ALICE.public)

    def expiry(self) -> int:
        return expiry_min(self.now().wall_s + HOUR_S)

    def order(self, word: str, argument: str = "") -> Any:
        """Return the router's answer to its operator."""
        body = encode_inquiry(Inquiry(word, argument))
        self.bring(self.operator, seal_unicast(ALICE, ME.public, body, ttl_s=0, expiry_min=self.expiry()))
        self.cycle()
        self.settled()
        answer = decode_inquiry(self.bodies(self.operator)[-1])
        assert isinstance(answer, Answer)
        return json.loads(answer.text)

    def invite(self, secret: bytes = SECRET, **more: Any) -> Any:
        said = {"id": digest(secret).hex(), "rights": ["join", "store"], "until_s": WALL_S + DAY_S, **more}
        return self.order("invite", json.dumps(said))

    def redeem(self, link: int, key: SigningKey, secret: bytes = SECRET, name: str = "") -> list[Redeemed]:
        """Return the answers on the link."""
        body = encode_redemption(Redeem(secret, name))
        self.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=self.expiry()))
        self.cycle()
        found = [decode_redemption(one) for one in self.bodies(link)]
        if (end := self.router.links.get(link)) is not None:
            self.router.settled(link, end.outgoing.sent, self.now())
        assert all(isinstance(one, Redeemed) for one in found)
        return found  # type: ignore[return-value]

    def bodies(self, link: int) -> list[bytes]:
        messages = [open_message(wire) for wire in self.told(link)]
        return [one.body for one in messages if isinstance(one, Unicast)]

    def invited(self) -> list[dict[str, Any]]:
        """Return the events about invitations, without their times."""
        found = [dict(one.fields) for one in self.events if isinstance(one, RouterChange) and one.event == "invite"]
        assert all(one.pop("invitation") == digest(SECRET) for one in found)
        return found

    def looks(self) -> bool:
        """Whether the file is to be read again; a second call returns False."""
        return bool(self._gone(LookAtFile))

    def writes(self) -> list[WriteGuests]:
        """Return the grants to be written into the file, each once."""
        return [one for one in self._gone(WriteGuests) if isinstance(one, WriteGuests)]

    def guest(self, key: SigningKey) -> int:
        return self.link(key.public, role="router")

    def standing(self, key: SigningKey) -> Standing | None:
        return self.router.links.standing_of(key.public)


def yes(*rights: str, until: int = 0) -> Redeemed:
    return Redeemed(SECRET, None, rights, until)


def no(reason: Reason, secret: bytes = SECRET) -> Redeemed:
    return Redeemed(secret, int(reason))
