"""`router audit-verify`: whether an audit's files are those that its auditor signed."""

from __future__ import annotations

from pathlib import Path

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json, time_text
from router.core.wire.crypto import PublicKey
from router.core.wire.text import BadText, key_text, parse_key


@click.command("audit-verify", cls=Command)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--by",
    "by",
    metavar="KEY",
    help="The auditor who must have signed it: an address, or a name that this home knows. Without it, whoever did is "
    "printed.",
)
@json_option
def audit_verify(directory: Path, by: str | None, as_json: bool) -> None:
    """Check that the files in DIR are those that an auditor signed.

    DIR is what `router audit --out DIR --sign` wrote, or a copy of it. Hidden files are not looked at.
    """
    from router.audit.command import own_home
    from router.audit.key_names import key_names
    from router.audit.signing.signature import NotAsSigned, check

    wanted = None if by is None else _address(by)
    try:
        found = check(directory)
    except NotAsSigned as error:
        raise Failure(Exit.FAILED, str(error)) from None
    signer = key_text("addr", found.key)
    if wanted not in (None, found.key):
        raise Failure(Exit.FAILED, f"{directory} was signed by {signer}, not by {key_text('addr', wanted or b'')}")
    if as_json:
        say_json({"key": found.key, "at_s": found.at_s, "files": found.files})
        return
    home = own_home()
    name = key_names([home] if home else []).get(found.key.hex(), "")
    say(f"{found.files} files are as they were signed on {time_text(found.at_s)}")
    say(f"by {name + ', ' if name else ''}{signer}")


def _address(text: str) -> PublicKey:
    """Return the key of this text; raise `BadText` or `UnknownName`."""
    try:
        return parse_key(text, "addr")
    except BadText:
        home = invocation().chosen_home
        if not home.holds_node:
            raise
    from router.settings.names import Names

    return Names.of(home).address(text)
