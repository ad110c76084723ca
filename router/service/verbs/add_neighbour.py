"""Neighbours that a service makes known to its router, their links, and the failure to connect to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard

from .forms import Name, Seconds
from .verb import News, Request

URLS_MAX, URL_CHARS_MAX = 8, 512


class AddNeighbour(Request, frozen=True):
    """Make a neighbour known to the router until that Unix second; a time that has passed makes it unknown again.

    `how`: `"lan"` if it was heard there; `"hint"` if only a hint names its addresses. Either may name a victim's, so
    dialling them has a budget. Otherwise lists of neighbours show this service's name."""

    WORD: ClassVar[str] = "learn"

    key: PublicKey
    urls: Annotated[tuple[Annotated[str, Meta(max_length=URL_CHARS_MAX)], ...], Meta(max_length=URLS_MAX)] = ()
    until_s: Seconds = 0
    name: Name = ""
    how: Literal["", "lan", "hint"] = ""

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        return (NeighbourAdded(self.key),) if self.how == "lan" and "error" not in answer else ()

    def given_up(self, error: str) -> Sequence[Heard]:
        return (NeighbourAdded(self.key, error),) if self.how == "lan" else ()


class NeighbourAdded(Heard, frozen=True):
    """The own router has carried out the `AddNeighbour` of this key, which was heard on a LAN, or has refused it, as
    `error` says; so it is told how fast the router makes neighbours known."""

    key: PublicKey
    error: str = ""


class NeighbourUnreachable(News, frozen=True):
    """Connecting to a neighbour that this service has made known has failed; `text` says why. `let_in`: the cause was
    not its own refusal."""

    WORD: ClassVar[str] = "unreached"

    key: PublicKey
    text: str
    let_in: bool = True


class NeighbourLinked(News, frozen=True):
    """A neighbour that the service which finds routers has made known is connected, and so has proven its key, or is
    not any more.

    `ip`: the IP address of its end, "" if it has none. This comes for each such neighbour when the service starts or
    makes it known, and whenever it changes, also because the connection to the own router is lost."""

    WORD: ClassVar[str] = "neighbour-linked"

    key: PublicKey
    ip: str = ""
    is_up: bool = True
