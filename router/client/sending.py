"""Sending to one address: sealed to the recipient's prekey, unless the app or the recipient wants it in the open."""

from __future__ import annotations

from functools import cached_property, partial

import trio

from router.client.composer import Composer, Lifetime, octets
from router.client.errors import ClientError
from router.client.publishing import Posted, Publishing
from router.client.sealing.exchange import PrekeyExchange
from router.core.wire.crypto import PublicKey
from router.core.wire.prekey_exchange import is_exchange
from router.core.wire.text import BadText, parse_key
from router.core.wire.unicast_seal import BEGINS
from router.settings.home import Home
from router.settings.names import Names

Address = PublicKey | str


class Sending:
    """Sends an app's unicasts. `exchange`: None if all of them go in the open, as a service's do."""

    def __init__(self, home: Home, composer: Composer, publishing: Publishing, exchange: PrekeyExchange | None) -> None:
        self._home = home
        self._composer = composer
        self._publishing = publishing
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"<sending {'in the open' if self._exchange is None else 'sealed'}>"

    async def send(self, address: Address, body: bytes, lifetime: Lifetime, *, plain: bool, follow: bool) -> Posted:
        """Send to a key, its text, or a name of the home; return when it is in custody."""
        to, body = await self._key_of(address) if isinstance(address, str) else address, octets(body)
        compose = partial(self._composer.unicast, to, body, lifetime)
        exchange = self._exchange
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
    if body.startswith(BEGINS) or is_exchange(body):
        said = "this body begins like a sealed one, or like a request for a prekey, and would be taken for it"
        raise ClientError(f"{said}: send it sealed, without plain=True, or put a byte before it")
