"""The version of this program, and those of what its files, keys and links rest on."""

from __future__ import annotations

import click

from router.cli.command import ARGUMENTS

DISTRIBUTION = "key-addressed-router"
AS_JSON = "--json"


def versions() -> dict[str, str]:
    """Return the versions by name; `lmdb` and `openssl` are those of the libraries themselves."""
    import platform
    from importlib.metadata import version

    import lmdb
    from OpenSSL import SSL

    return {
        "router": version(DISTRIBUTION),
        "python": platform.python_version(),
        "lmdb": ".".join(map(str, lmdb.version())),
        "pynacl": version("pynacl"),
        "openssl": SSL.OpenSSL_version(SSL.OPENSSL_VERSION).decode().removeprefix("OpenSSL ").partition(" ")[0],
    }


def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and exit; with `--json` all versions."""
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    from router.cli.output import say, say_json

    if AS_JSON in ctx.meta[ARGUMENTS]:
        say_json(versions())
    else:
        say(f"router, version {version(DISTRIBUTION)}")
    ctx.exit()


def refuse_alone(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Refuse `--json` before a command's name."""
    if value and not ctx.resilient_parsing:
        raise click.UsageError(
            f"{AS_JSON} belongs behind a command's name; before it, it goes with --version alone", ctx
        )
