"""What a service tells its operator: a warning, or what is in order."""

from __future__ import annotations

from msgspec import Struct


class Warn(Struct, frozen=True):
    """Tell the operator, on the process's standard error and in `router status`: what is wrong, and what to do."""

    text: str


class Inform(Struct, frozen=True):
    """Tell the operator, on the process's standard error alone: what there is, with nothing to be done about it."""

    text: str
