"""`router audit-verify`: whether an audit's files are those that its auditor signed."""

from __future__ import annotations

import time
from pathlib import Path

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json, time_text
from router.cli.when import SECOND_NS, When, instant
from router.core.wire.crypto import PublicKey
from router.core.wire.text import BadText, counted, key_text, parse_key, span_text

AHEAD_S_MAX = 86_400
"""How far the auditor's clock may be ahead of this machine's where the age of an audit counts."""


@click.command("audit-verify", cls=Command)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--by",
    "by",
    metavar="KEY",
    help="The auditor who must have signed it: an address, or a name that this home knows. Without it, whoever did is "
    "printed.",
)
@click.option(
    "--newer-than",
    "newer_than",
    type=When(),
    metavar="WHEN",
    help="When it must have been signed after: 2026-03-12T17:30 (UTC), or 2d for two days ago. Without it, an earlier "
    "audit passes for the present one.",
)
@json_option
def audit_verify(directory: Path, by: str | None, newer_than: float | None, as_json: bool) -> None:
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
    if newer_than is not None and (why := too_old(found.at_s, newer_than, time.time_ns())):
        raise Failure(Exit.FAILED, f"{directory} {why}")
    if as_json:
        say_json({"key": found.key, "at_s": found.at_s, "files": found.files})
        return
    home = own_home()
    name = key_names([home] if home else []).get(found.key.hex(), "")
    are = "is as it was" if found.files == 1 else "are as they were"
    say(f"{counted(found.files, 'file')} {are} signed on {time_text(found.at_s)}")
    say(f"by {name + ', ' if name else ''}{signer}")


def too_old(at_s: int, newer_than: float, now_ns: int) -> str:
    """Return why an audit that was signed at the Unix second `at_s` is not newer than WHEN (as `When` returns it); ""
    if it is. One that seems to come from the future would be newer than all times for ever."""
    than_ns = instant(newer_than, now_ns)
    signed = f"was signed on {time_text(at_s)}"
    if at_s * SECOND_NS > now_ns + AHEAD_S_MAX * SECOND_NS:
        ahead = span_text(at_s - now_ns / SECOND_NS)
        return f"{signed}, {ahead} ahead of this machine's clock: set the clock that is wrong, and have it signed again"
    if at_s * SECOND_NS <= than_ns:
        return f"{signed}, and not after {time_text(than_ns // SECOND_NS)}: ask the auditor for a newer one"
    return ""


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
