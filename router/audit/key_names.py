"""The names that operators gave to keys, for the audit's page."""

from __future__ import annotations

from collections.abc import Iterable

from router.core.wire.errors import RouterError
from router.settings import config, keyring
from router.settings.home import Home
from router.settings.names import Names


def key_names(homes: Iterable[Home]) -> dict[str, str]:
    """Return names by key in hex. The first home that names a key wins; a name that another key has gets its home's."""
    found: dict[str, str] = {}
    for home in homes:
        for key, name in _names(home).items():
            if key not in found:
                found[key] = f"{name} ({home.path.name})" if name in found.values() else name
    return found


def _names(home: Home) -> dict[str, str]:
    """Return the names by key in hex that one home knows; {} if it cannot be used. The home's own node has its
    configured name, else the folder's name."""
    try:
        settings, _ = config.load(home.config_path)
        node = keyring.load(home, keyring.NODE).public.hex()
        return {**Names(home, settings).labels, node: settings.node.name or home.path.resolve().name}
    except (RouterError, OSError):
        return {}
