"""Compressed files of logs, made by one call of zstd as any auditor's tool makes them."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def text_of(path: Path) -> bytes:
    """Return the text of a file, compressed or not, with no help of the code under test."""
    data = path.read_bytes()
    return unpacked(data) if path.suffix == ".zst" else data


def unpacked(data: bytes) -> bytes:
    return zstd.decompress(data) if data else data


def packed(data: bytes, level: int = 1) -> bytes:
    return zstd.compress(data, level)


def pack_all(directory: Path, pattern: str = "*.jsonl") -> list[Path]:
    """Compress the files below a directory whose names match; return their new paths, in order."""
    found = []
    for path in sorted(directory.rglob(pattern)):
        found.append(path.with_name(f"{path.name}.zst"))
        found[-1].write_bytes(packed(path.read_bytes()))
        path.unlink()
    return found
