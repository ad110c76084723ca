"""The version of this program, and those of what its files, keys and links rest on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from router.cli.command import ARGUMENTS

DISTRIBUTION = "key-addressed-router"
AS_JSON = "--json"
_BUNDLED = re.compile(r"^\* Updated? ``libsodium`` to (\d[\w.-]*)", re.MULTILINE)
"""The line in PyNaCl's description, newest first, that names the libsodium within it."""


def own_version() -> str:
    """Return the version of this program as it is installed now, by the name of the folder that says so where Python
    looks for modules. `importlib.metadata` finds the same, and takes 1 MB of each node."""
    for place in sys.path:
        for found in Path(place).glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info"):
            return found.stem.rpartition("-")[2]
    from importlib.metadata import version

    return version(DISTRIBUTION)


def versions() -> dict[str, str]:
    """Return the versions by name; `lmdb`, `libsodium` and `openssl` are those of the libraries themselves."""
    import platform
    from importlib.metadata import version

    import lmdb
    from OpenSSL import SSL

    return {
        "router": own_version(),
        "python": platform.python_version(),
        "lmdb": ".".join(map(str, lmdb.version())),
        "pynacl": version("pynacl"),
        "libsodium": libsodium_version(),
        "openssl": SSL.OpenSSL_version(SSL.OPENSSL_VERSION).decode().removeprefix("OpenSSL ").partition(" ")[0],
    }


def libsodium_version() -> str:
    """Return the version of the libsodium that PyNaCl uses, "unknown" if neither can tell.

    A libsodium of the system is asked itself. The one in PyNaCl's wheels does not export its version, so there it is
    the one that PyNaCl's description names.
    """
    import ctypes
    from importlib.metadata import distribution

    from nacl import _sodium

    try:
        ask = ctypes.CDLL(_sodium.__file__).sodium_version_string
    except (OSError, AttributeError):
        found = _BUNDLED.search(distribution("pynacl").read_text("METADATA") or "")
        return found[1] if found else "unknown"
    ask.restype = ctypes.c_char_p
    return bytes(ask()).decode()


def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and exit; with `--json` all versions."""
    if not value or ctx.resilient_parsing:
        return
    from router.cli.output import say, say_json

    if AS_JSON in ctx.meta[ARGUMENTS]:
        say_json(versions())
    else:
        say(f"router, version {own_version()}")
    ctx.exit()


def refuse_alone(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Refuse `--json` before a command's name."""
    if value and not ctx.resilient_parsing:
        raise click.UsageError(
            f"{AS_JSON} belongs behind a command's name; before it, it goes with --version alone", ctx
        )
