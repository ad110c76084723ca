"""The names that a home's owner gave to keys, looked up in both directions."""

from __future__ import annotations

from functools import cached_property

from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.text import KINDS, BadText, parse_key, quoted
from router.settings import config, keyring
from router.settings.home import Home

SHOWN_MAX = 12


class UnknownName(RouterError):
    """No key has that name here; the text lists known names."""


class Names:
    """The names of neighbours and local keys in the configuration, of keys in the keyring, and of groups."""

    def __init__(self, home: Home, settings: config.Config) -> None:
        self._home = home
        peers = {one.name: one.address for one in settings.peers if one.name}
        self._given = {**peers, **{one.name: one.address for one in settings.local if one.name}}

    @classmethod
    def of(cls, home: Home) -> Names:
        """Return the names of a home, with its configuration read anew; raise `ConfigError` if that cannot be used."""
        return cls(home, config.load(home.config_path)[0])

    def address(self, text: str) -> PublicKey:
        """Return the key of a neighbour, local service or kept key by its name, or the key in addr1… text or hex."""
        if text in self._given:
            return self._given[text]
        own = keyring.names(self._home)
        if text in own:
            return keyring.load(self._home, text).public
        try:
            return parse_key(text, "addr")
        except BadText:
            if text.strip().lower().startswith(tuple(f"{kind}1" for kind in KINDS)) or len(text) == 64:
                raise
        known = sorted({*self._given, *own})
        names = ", ".join(known[:SHOWN_MAX]) or "none yet"
        more = f" and {len(known) - SHOWN_MAX} more" if len(known) > SHOWN_MAX else ""
        said = f"{quoted(text, 60)} is neither a name known here nor an address"
        if not text.strip():
            said = "no name and no address is given"
        raise UnknownName(f"{said}; names are: {names}{more}; an address is addr1… or 64 hex digits")

    def of_address(self, hex_key: str) -> str:
        """Return the name of an address, "" if it has none."""
        return self._labels.get(hex_key, "")

    def of_group(self, hex_key: str) -> str:
        """Return the name of a group, "" if it has none; the group of a service's own key is called as that key is."""
        return self._groups.get(hex_key) or self.of_address(hex_key)

    def read_keys(self) -> None:
        """Read the kept keys now, so that `of_address` does not wait for the disk later."""
        self._labels  # noqa: B018

    @property
    def labels(self) -> dict[str, str]:
        """Return the names of all addresses and groups, by key in hex."""
        return self._groups | self._labels

    @cached_property
    def _labels(self) -> dict[str, str]:
        former = {key.hex(): name for key, name in keyring.former_addresses(self._home).items()}
        own = keyring.addresses(self._home)
        return former | {key.hex(): name for name, key in (*own.items(), *self._given.items())}

    @cached_property
    def _groups(self) -> dict[str, str]:
        return {link.group.hex(): name for name, link in keyring.groups(self._home).items()}
