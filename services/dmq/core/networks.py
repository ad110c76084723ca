"""The networks by name or magic, and the named consumers, in the form of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .protocols.handshake import MAGIC_BITS, MAGICS
from .stake.chain_time import NETWORKS, ChainTime


class Terms(NamedTuple):
    """The constants of a network: the magic that clients name, and its times; None if a genesis file must give them."""

    magic: int
    chain: ChainTime | None


def network_of(text: str) -> Terms:
    """Return the network of that name or magic; raise `ValueError`."""
    if text in MAGICS:
        return Terms(MAGICS[text], NETWORKS[text])
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << MAGIC_BITS:
        raise ValueError(f'network: "{text[:40]}" is none; write {", ".join(MAGICS)} or a number below 2^{MAGIC_BITS}')
    known = {magic: name for name, magic in MAGICS.items()}.get(int(text))
    return Terms(int(text), NETWORKS[known] if known else None)


def name_of(magic: int) -> str:
    """Return the network's name, or its magic as text."""
    return next((name for name, known in MAGICS.items() if known == magic), str(magic))


def consumers_of(entries: Iterable[str]) -> dict[str, str]:
    """Return the URL of each named consumer's socket; raise `ValueError` for a name or a socket given twice."""
    found: dict[str, str] = {}
    paths = set[str]()
    for entry in entries:
        name, _, url = entry.partition("=")
        path = url.partition("?")[0]
        if name in found:
            raise ValueError(f'consumers names "{name}" twice; each consumer has a name of its own')
        if path in paths:
            raise ValueError(f"consumers names the socket {path} twice; each consumer has a socket of its own")
        found[name] = url
        paths.add(path)
    return found
