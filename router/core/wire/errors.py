"""The base class of all errors that an app may meet."""

from __future__ import annotations


class RouterError(Exception):
    """An app, its home or its node cannot do something; the text is a sentence with cause and remedy."""
