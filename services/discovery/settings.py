"""The settings of discovery: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from typing import Annotated

from router.service.settings import Struct, about, span


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Discovery: how nodes find each other."""

    seeds: Annotated[
        tuple[str, ...],
        about("Links of nodes to begin with, as `router id --link` prints them there; their times do not count."),
    ] = ()
    sampling: Annotated[
        bool,
        about(
            "Whether this node exchanges advertisements with others, so that each comes to know of all. The core nodes "
            "that `router init` makes do."
        ),
    ] = False
    period_s: Annotated[float, span(0.1, 3600.0, "The time between two exchanges, give or take a quarter.")] = 10.0
