"""The forms of fields that several verbs have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[int, Meta(ge=0, le=1 << 40)]
"""A Unix second."""
Name = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
