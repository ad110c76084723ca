"""The job that a guestbook runs in another process."""

from __future__ import annotations

from collections import Counter


def favourite(pages: bytes) -> bytes:
    """Return the most frequent word in these pages."""
    words = Counter(pages.split())
    return max(words, key=lambda word: (words[word], word)) if words else b""
