"""The events that the web side writes to its router's log."""

from __future__ import annotations

EVENTS = {
    "web_published": "A script has published a message over HTTP, with the token that the event names.",
}
