"""What is computed in another process."""

from __future__ import annotations

from collections import Counter


def favourite(pages: bytes) -> bytes:
    """The word that stands most often in these pages."""
    words = Counter(pages.split())
    return max(words, key=lambda word: (words[word], word)) if words else b""
