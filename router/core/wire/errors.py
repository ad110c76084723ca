"""The base class of the errors that an app may meet."""

from __future__ import annotations


class RouterError(Exception):
    """Raised for what an app, its home or its node cannot do; the text is a sentence with cause and remedy."""
