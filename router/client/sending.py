"""Sending to one address: sealed to the recipient's prekey, unless the app or the recipient wants it in the open."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TypedDict

import trio

from router.client.composer import Composer, Lifetime, octets
from router.client.custody.aside import is_for_client
from router.client.errors import ClientError
from router.client.publishing import Posted, Publishing
from router.client.sealing.exchange import PrekeyExchange
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import EXPIRY_MIN, TTL_S
from router.core.wire.text import BadText, parse_key
from router.core.wire.unicast_seal import BEGINS
from router.settings.home import Home
from router.settings.names import Names

Address = PublicKey | str


class UnicastManner(TypedDict, total=False):
    """How a message to one address is sent: its life, and whether it goes in the open."""

    ttl_s: int
    expiry_min: int
    plain: bool


class UnicastSender:
    """Sends an app's unicasts. `exchange`: None if all of them go in the open, as a service's do."""

    def __init__(self, home: Home, composer: Composer, publishing: Publishing, exchange: PrekeyExchange | None) -> None:
        self._home = home
        self._composer = composer
        self._publishing = publishing
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"<sender of unicasts, {'in the open' if self._exchange is None else 'sealed'}>"

    async def send(
        self,
        address: Address,
        body: bytes,
        *,
        follow: bool,
        plain: bool = False,
        ttl_s: int = TTL_S,
        expiry_min: int = EXPIRY_MIN,
    ) -> Posted:
        """Send to a key, its text, or a name of the home; return when it is in custody."""
        to = await self._key_of(address) if isinstance(address, str) else address
        body, lifetime, exchange = octets(body), Lifetime(ttl_s, expiry_min), self._exchange
        to = to if exchange is None else exchange.newest(to)
        compose = partial(self._composer.unicast, to, body, lifetime)
        if exchange is not None and plain:
            _check_plain(body)
        elif exchange is not None and (prekey := await exchange.prekey_of(to)) is not None:
            compose = partial(self._composer.sealed, prekey, exchange.seal, body, lifetime)
        return await self._publishing.deliver(compose, follow=follow)

    async def _key_of(self, text: str) -> PublicKey:
        try:
            return parse_key(text, "addr")
        except BadText:
            return await trio.to_thread.run_sync(lambda: self._names.address(text))

    @cached_property
    def _names(self) -> Names:
        return Names.of(self._home)


def _check_plain(body: bytes) -> None:
    """Raise `ClientError` for a body that the recipient would not take for one in the open."""
    if body.startswith(BEGINS) or is_for_client(body):
        said = "this body begins like a sealed one, or like a request for a prekey, and would be taken for it"
        raise ClientError(f"{said}: send it sealed, without plain=True, or put a byte before it")
