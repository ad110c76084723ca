"""What the errors that an app may meet have in common."""

from __future__ import annotations


class RouterError(Exception):
    """Something that an app, its home or its node cannot do; the text is a sentence that says why and what to do."""
