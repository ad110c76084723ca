"""The events that a DMQ node writes to its router's log, under the message's id, or its digest if that has not 32
bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from router.cli.output import time_text
from services.dmq.core.messages.certificate import pool_text

EVENTS = {
    "dmq_accepted": "A message was taken: it is on disk, and its signer has been told so.",
    "dmq_rejected": "A message was not taken.",
    "dmq_published": "The router has a message in custody for the topic's group, or has had it from another publisher.",
    "dmq_unpublished": "A message that was taken could not be published in the topic's group.",
    "dmq_spaced_out": "A message expired before the node `peer` would take it, which takes one of its pool a minute.",
    "dmq_turned_away": "Messages were not taken, so many of one reason, beyond those that are logged one by one.",
    "dmq_read": "A named consumer has acknowledged a message.",
    "dmq_set_aside": "A message alone broke off a named consumer again and again, and is not given to it any more.",
    "dmq_given_again": "A message that was set aside is to be given to its consumer once more.",
    "dmq_expired": "A message has reached its expiry, and is held no longer.",
    "dmq_consumer_gone": "A consumer that is named no more is forgotten, and nothing is owed to it.",
    "dmq_broken_off": "Connections were closed by the node, so many of one cause.",
    "dmq_stake": "A new stake distribution is in force.",
}


def turns_text(waiting: Mapping[str, Any]) -> str:
    """Return to which nodes a message waits to be announced, until when, and why."""
    each = " and ".join(f"to {peer} from {time_text(at_s)}" for peer, at_s in waiting["turns"].items())
    return f"{each}: one message of a pool each {waiting['spacing_s']:g} s"


SHOWN: dict[str, Callable[[Any], str]] = {
    "pool": pool_text,
    "due": time_text,
    "kept_until_it_expires": time_text,
    "to_be_announced": turns_text,
}
"""How people read the fields of these events, and of what a node says of a live message."""
