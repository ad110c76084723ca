"""The settings of discovery: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from router.core.wire.text import BadText
from router.service.settings import Struct, about, span
from services.discovery.core.seeds import read_seeds

NetworkName = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{16}( .*)?\Z",
        extra={"form": "16 hex digits, and perhaps a name, as `router lan list` shows it"},
    ),
]


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Discovery: how nodes find each other."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that a form cannot check, each with its fault."""
        try:
            read_seeds(self.seeds)
        except BadText as error:
            yield "seeds", str(error)

    seeds: Annotated[
        tuple[str, ...],
        about(
            "Links of nodes to begin sampling with, as `router id --link` prints them there; their times do not count."
        ),
    ] = ()
    sampling: Annotated[
        bool,
        about(
            "Whether this node exchanges advertisements with others, so that each comes to know of all. The core nodes "
            "that `router init` makes do."
        ),
    ] = False
    lan: Annotated[
        Literal["off", "allowed", "here", "everywhere"],
        about(
            'On which local networks this node says that it is there, and listens for others: on the "allowed" ones '
            '(by `networks`, or by `router lan on`), also on those where it is ("here") when it starts, "everywhere", '
            'or on none ("off").'
        ),
    ] = "allowed"
    networks: Annotated[
        tuple[NetworkName, ...], about("Networks that are allowed, as `router lan list` shows them.")
    ] = ()
    say_name: Annotated[
        bool,
        about("Whether this node says `node.name` to those on local networks with which it has groups in common."),
    ] = True
    groups: Annotated[
        tuple[str, ...],
        about("Public groups that are named on local networks, by their names in the home or their keys: at most 26."),
    ] = ()
    lan_port: Annotated[
        int, span(0, 65_535, "The port at which neighbours on the LAN reach this node; 0: any that is free.")
    ] = 0
    period_s: Annotated[float, span(0.1, 3600.0, "The time between two exchanges, give or take a quarter.")] = 10.0
