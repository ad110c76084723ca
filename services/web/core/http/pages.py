"""Pages and their parts: read once, compressed once, and sent only when they have changed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from .request import Answer, Request, refusal

KINDS = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "json": "application/json", "svg": "image/svg+xml", "png": "image/png", "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8", "jpg": "image/jpeg", "webp": "image/webp", "ico": "image/x-icon",
}  # fmt: skip
"""The media types of files, by how their names end; other files are none of a page."""
_COMPRESSED_LEAST = 200
"""Bytes from which on compression is worth its header."""


class Page(Struct, frozen=True):
    """A file as it is sent; `packed`: the same compressed, b"" if that makes it no smaller."""

    kind: str
    body: bytes
    tag: str
    packed: bytes = b""


def page_of(name: str, body: bytes) -> Page:
    """Return a file of this name as it is sent. Raises `KeyError` if it is none of a page."""
    packed = _packed(body) if len(body) >= _COMPRESSED_LEAST else b""
    tag = hashlib.sha256(body).hexdigest()[:32]
    return Page(KINDS[name.rpartition(".")[2]], body, tag, packed if len(packed) < len(body) else b"")


def _packed(body: bytes) -> bytes:
    """Return these bytes in gzip's form, without a time, so that the same file is always sent alike."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


class Pages:
    """The pages by path; a folder's is its `index.html`."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._pages = {_address_of(path): page_of(path, body) for path, body in files.items()}

    def __repr__(self) -> str:
        return f"<pages: {', '.join(self._pages)}>"

    def answer(self, request: Request) -> Answer | None:
        """Return the page at the path of the request; None if there is none."""
        found = self._pages.get(request.path)
        if found is None:
            if f"{request.path}/" not in self._pages:
                return None
            return folder_of(request.path)
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method", "this is a page, which is there to GET", ("Allow", "GET, HEAD"))
        is_packed = bool(found.packed) and takes_gzip(request.header(b"accept-encoding"))
        tag = f'"{found.tag}-gzip"' if is_packed else f'"{found.tag}"'
        headers = (("ETag", tag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding"))
        if found.tag in _tags(request.header(b"if-none-match")):
            return Answer(status=304, headers=headers)
        if is_packed:
            return Answer(
                status=200, body=found.packed, kind=found.kind, headers=(*headers, ("Content-Encoding", "gzip"))
            )
        return Answer(status=200, body=found.body, kind=found.kind, headers=headers)


def _address_of(path: str) -> str:
    """Return the address of a file, given by its path; of an `index.html` that of its folder."""
    folder, slash, name = path.rpartition("/")
    return f"/{folder}{slash}" if name == "index.html" else f"/{path}"


def folder_of(path: str) -> Answer:
    """Return the answer to who asks for a folder without the slash at its end, so that what is relative leads there.
    The address is relative too, as the path before it is not known behind a proxy."""
    return Answer(status=308, headers=(("Location", f"{quote(path.rpartition('/')[2], safe='')}/"),))


def _tags(text: str) -> set[str]:
    """Return the tags of `If-None-Match`, without what says how a page was sent."""
    return {one.strip().removeprefix("W/").strip('"').removesuffix("-gzip") for one in text.split(",")}


def takes_gzip(text: str) -> bool:
    """Whether `Accept-Encoding` allows gzip."""
    for one in text.lower().split(","):
        name, _, quality = one.partition(";")
        if name.strip() in ("gzip", "*"):
            value = quality.strip().removeprefix("q=")
            return not value or value.strip("0.") != ""
    return False
