"""The settings of a guestbook: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from typing import Annotated

from router.service.settings import Struct, door, span


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A guestbook: who may write how many pages, and where else it can be reached."""

    pages_max: Annotated[int, span(1, 1_000_000, "Pages kept at most; one more is refused guestbook:full.")] = 1000
    board: Annotated[str, door("Where UDP asks for the number of pages: udp://HOST:PORT. Empty: nowhere.")] = ""
    desk: Annotated[
        str,
        door(
            "A Unix socket for other users, to write pages or reach the node: unix:PATH?mode=660&group=NAME. "
            "Empty: none.",
        ),
    ] = ""
    visit_s: Annotated[int, span(1, 86_400, "How long a guest may visit, in seconds from its grant.")] = 3600
