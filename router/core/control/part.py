"""The form of a part: what it hears, and what it does when links come and go and as time passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from router.core.routing.links import Link
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

Refused = tuple[Reason, str] | None
"""Why a message to this router is refused; None if it is not."""
Hears = Mapping[type, Callable[..., Any]]
"""By the type of a message's body: the method that hears it, called with the link, the body and the time; it returns
why the message is refused, or None. By a `Request` of services: the method that carries it out, called alike; it
returns the answer as a JSON object, in which `error` is a sentence. That of a request with `ANSWERED_LATER` is also
called with the number of the request, None if it has none, and may return None and answer by it later."""
Orders = Mapping[str, Callable[..., Any]]
"""By an operator's word: the method that carries it out, called with its argument and the time; returns the answer as a
JSON value, or a page of a long list (`router.core.wire.list_page`), or raises `ValueError` with a sentence for the
operator."""


class Part:
    """A part of what this router says and hears for itself; `Reception` finds it by its tables."""

    HEARS: ClassVar[Hears] = {}
    ORDERS: ClassVar[Orders] = {}

    def link_up(self, link: Link, now: Now) -> None:
        """Act on a link that has come up."""

    def link_down(self, link: Link, now: Now) -> None:
        """Act on a link that is gone."""

    def tick(self, now: Now) -> None:
        """Do what is due; called once a second."""
