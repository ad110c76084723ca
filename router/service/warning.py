"""A warning of a service to its operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the operator, on the process's standard error and in `router status`: what is wrong, and what to do."""

    text: str
