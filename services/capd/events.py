"""The events that a CAPD pool writes to its router's log, under the message's id as people see it."""

from __future__ import annotations

from router.cli.output import time_text

EVENTS = {
    "capd_accepted": "A message was taken into the pool: it is on disk, and its sender has been told so.",
    "capd_turned_away": "A message was not taken.",
    "capd_refused": "Messages were not taken, so many of one sender and reason, also those that are logged singly.",
    "capd_evicted": "A message was displaced by others.",
    "capd_expired": "A message's own expiration has come; it is neither served nor matched any more.",
    "capd_rescinded": "A message was rescinded; it is neither served nor matched any more.",
    "capd_sent": "A neighbour was sent a message that it had asked for by its id.",
    "capd_connected": "A Nexa node, or another pool, is connected.",
    "capd_parted": "A connection to a neighbour was refused, or has ended, or could not be made.",
    "capd_parted_many": "Connections were refused or have ended, so many of one reason, beyond those logged singly.",
    "capd_told": "Somebody with a standing query was sent a message that matches.",
}
SHOWN = {"relay_until": time_text}
