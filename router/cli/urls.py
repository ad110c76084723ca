"""Transport URLs as people give them, judged before anything is done with them."""

from __future__ import annotations

from router import transport


def check_url(url: str) -> None:
    """`InvalidUrl`, saying how it should look, unless some transport can use it."""
    if url.startswith("unix:") and not url.startswith("unix://"):
        return  # relative to the home
    scheme = transport.scheme_of(url)
    transport.load(scheme)
    if scheme == "tls":
        transport.tcp_address(url)
    if scheme == "unix":
        transport.unix_path(url)
