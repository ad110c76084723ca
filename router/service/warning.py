"""What a service tells its operator: a warning, or what is in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the operator, on the process's standard error and in `router status`: what is wrong, and what to do."""

    text: str


@dataclass(frozen=True, slots=True)
class Inform:
    """Tell the operator, on the process's standard error alone: what there is, with nothing to be done about it."""

    text: str
