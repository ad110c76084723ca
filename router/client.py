"""The public API for apps: sign on to a node, join groups, publish, receive, send.

    async with router.connect() as node:
        group = await node.join("family")
        await group.publish(b"hello")
        async for message in group:
            print(message.sender, message.body)

What an app may rely on:

* `publish` returns when the router has the message in custody, on disk; from then on no crash loses it.
* A message received is settled when the loop asks for the next one, or by `await message.settle()`. If the process
  dies before, the node hands over what was not settled again, marked `redelivered`. With a journal the app never
  sees again what its loop has moved on from. While the process lives, lost connections are healed without doubles.
* Leaving a loop settles nothing: what it held is settled when the next loop over the same group begins, or by hand.
* A message nobody asks for waits; when the window is full of such messages, the node waits too.
* A key that is kept (`as_name`, `key`) keeps its subscriptions and its queue while the app is away; the key of an app
  without a name is thrown away, and its subscriptions end with the connection.
"""

from __future__ import annotations

import logging
import os
import random as chance
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Literal, Self

import trio

from . import client_group, keyring
from .client_errors import (
    CannotPublish,
    ClientError,
    JoinRefused,
    NodeUnavailable,
    NotAnswered,
    Refused,
)
from .client_group import Group, Publisher
from .client_link import PATIENCE_S, ClientLink, Dialling, News
from .composer import CAUSES, EXPIRY_MIN, TTL_S, Causes, Composer, Lifetime, Voice
from .core import link
from .core.control import Report
from .core.crypto import MessageId, PublicKey, SigningKey
from .core.grouplink import SCHEME, GroupLink, parse_link
from .core.inquiry import Answer, Inquiry, encode_inquiry
from .core.session import Offer
from .core.text import BadText, key_text, parse_key, short
from .feed import Feed
from .handover import UNICASTS, Batch, Handover
from .home import Home
from .joins import Joins
from .journal import Journal, JournalError
from .keyring import NODE, KeyringError
from .outbox import Outbox
from .outcomes import Outcomes
from .publishing import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MESSAGES_MAX, OnRefused, Publishing
from .reading import Batches, Door, Ear, Messages, Readings
from .received import Received
from .sequence import Sequences
