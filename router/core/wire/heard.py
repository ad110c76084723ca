"""The common form of what a service's rules hear, whether it comes in a message of the router or from the host."""

from __future__ import annotations

from msgspec import Struct


class Heard(Struct, frozen=True):
    """What rules hear; `router/service/contract.py` says what there is for every service."""
