"""The names that this home's owner gave to keys: from a name or key to the key, and back."""

from __future__ import annotations

from functools import cached_property

from router.cli.exits import Exit, Failure
from router.core.crypto import PublicKey
from router.core.text import KINDS, BadText, clean, parse_key
from router.settings import keyring
from router.settings.config import Config
from router.settings.home import Home

OWN_MAX = 1000  # kept keys that are looked through for a name


class Names:
    """Neighbours and local keys of the configuration, keys of the keyring, and groups."""

    def __init__(self, home: Home, config: Config) -> None:
        self._home = home
        peers = {one.name: one.address for one in config.peers if one.name}
        self.addresses = {**peers, **{one.name: one.address for one in config.local if one.name}}

    def address(self, text: str) -> PublicKey:
        """The key of a neighbour, local service or kept key by its name, or of addr1… text or hex."""
        if text in self.addresses:
            return self.addresses[text]
        if text in keyring.names(self._home):
            return keyring.load(self._home, text).public
        try:
            return parse_key(text, "addr")
        except BadText:
            if text.strip().lower().startswith(tuple(f"{kind}1" for kind in KINDS)) or len(text) == 64:
                raise
            said = f'"{clean(text, 60)}" is no name known here and no address'
            known = ", ".join(sorted(self.addresses)) or "none yet"
            raise Failure(Exit.USAGE, f"{said}; names are: {known}; an address is addr1… or 64 hex digits") from None

    def of_address(self, hex_key: str) -> str:
        """The name, or ""."""
        return self._labels.get(hex_key, "")

    def of_group(self, hex_key: str) -> str:
        """The name, or ""."""
        return self._groups.get(hex_key, "")

    @cached_property
    def _labels(self) -> dict[str, str]:
        own = {name: keyring.load(self._home, name).public for name in keyring.names(self._home)[:OWN_MAX]}
        return {key.hex(): name for name, key in (*own.items(), *self.addresses.items())}

    @cached_property
    def _groups(self) -> dict[str, str]:
        return {link.group.hex(): name for name, link in keyring.groups(self._home).items()}
