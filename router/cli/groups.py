"""`router group`: the groups whose links are kept in the home."""

from __future__ import annotations

import secrets

import click

from router.cli import qr
from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.given_link import link_from
from router.cli.group_changes import tell_services
from router.cli.node_link import addresses
from router.cli.output import columns, hint, note, say, say_json, short_text
from router.client.running_or_stopped import asked_or_read
from router.core.wire.address import addresses_of_node
from router.core.wire.grouplink import GroupLink, new_group, parse_link
from router.core.wire.hint import Hint
from router.core.wire.link_text import GROUP
from router.core.wire.text import key_text
from router.settings import config, keyring
from router.settings.home import Home

READERS_SHOWN = 5
"""How many commands an error lists."""


@click.group(cls=CommandGroup)
def group() -> None:
    """Make, share and add groups. Whoever has a group's link can read it."""


@group.command("new", cls=Command)
@click.argument("name")
@json_option
def new(name: str, as_json: bool) -> None:
    """Make a group and print its link, which is a secret of its members."""
    link = new_group(secrets.token_bytes(32), secrets.token_bytes(32), keyring.checked(name))
    try:
        keyring.add_group(invocation().home_to_write, name, link)
    except keyring.NameTaken:
        said = f'there is a group "{name}" already; `router group share {name}` prints its link'
        raise Failure(Exit.USAGE, said) from None
    tell_services(invocation().chosen_home)
    _print_link(name, link, as_json)
    hint(
        f"this link is a secret: whoever has it can read and write in {name}. Give it to the others in private; "
        f"each runs `router group add LINK` there, then `router sub {name}` there. "
        f"`router group share {name}` prints it again"
    )


@group.command("list", cls=Command)
@json_option
def list_groups(as_json: bool) -> None:
    """List the groups whose links are kept here.

    A group has the same check wherever its link was taken unchanged: a link has no checksum, so compare.
    """
    known = keyring.groups(invocation().home)
    if as_json:
        say_json([_row(name, link) for name, link in known.items()])
        return
    rows = [
        (name, short_text("group", link.group), "read only" if link.seed is None else "send", link.check)
        for name, link in known.items()
    ]
    columns(("NAME", "GROUP", "RIGHT", "CHECK"), rows, "no groups yet; `router group new NAME` makes one")


@group.command("share", cls=Command)
@click.argument("name")
@click.option("--read-only", is_flag=True, help="Print a link whose holder can read but not send.")
@click.option("--no-hints", is_flag=True, help="Leave out which routers serve the group, and their addresses.")
@qr.options
@json_option
def share(name: str, read_only: bool, no_hints: bool, draw: qr.Drawing, as_json: bool) -> None:
    """Print the link of the group with that name or key, or draw it as a QR code.

    Whoever has the link can read the group; a file with its code can be read by its owner only. The link also names up
    to two routers that serve the group, by which others find it: the uplinks of this node, or itself.
    """
    home = invocation().home
    found, link = keyring.find(home, name)
    link = link.with_hints(() if no_hints else _hints(home) or link.hints)
    if link.seed is None and not read_only:
        note(f"this link is for reading only: the right to send to {found} is not kept here")
    link = link.read_only() if read_only else link
    qr.show(link.text(), draw, leave_out="the group's name", on_terminal=not as_json)
    _print_link(found, link, as_json)


@group.command("add", cls=Command)
@click.argument("link")
@click.option("--name", help="The group's name here. Default: the name in the link.")
@click.option("--replace", is_flag=True, help="Believe this link where the one that is kept here has another key.")
@json_option
def add(link: str, name: str | None, replace: bool, as_json: bool) -> None:
    """Keep the group that a LINK describes.

    LINK may also be a file: a PNG or JPEG picture of the link's QR code, or its text. Give - to read it from standard
    input, which leaves no trace in the shell's history. If the group is known already, it gets the right to send if the
    link brings that, and the new name if one is given. Services of a running node that name the group take part from
    then on.
    """
    found = parse_link(link_from(link, GROUP))
    wanted = keyring.checked(keyring.name_for(found) if name is None else name)
    home = invocation().home_to_write
    known = {one.group: before for before, one in keyring.groups(home).items()}.get(found.group)
    kept = keyring.add_group(home, wanted, found, rename=name is not None, replace=replace)
    tell_services(home)
    if known is not None:
        note(f"this group was kept here as {known} already" + (f"; it is {kept} now" if kept != known else ""))
    if as_json:
        say_json(_row(kept, keyring.find(home, kept)[1]))
    else:
        say(f"{kept}  {key_text('group', found.group)}  check {found.check}")
        hint("whoever gave you the link sees the same check in `router group list`, unless a letter of it was changed")


@group.command("remove", cls=Command)
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Forget the link of the group with that name or key: this home no longer reads it or writes in it.

    Kept keys that have joined it must have left, or messages would go on waiting for them. The node's services leave
    it, an app that runs goes on until it ends, and whoever else has the link keeps it: to shut somebody out, make a new
    group.
    """
    home = invocation().home_to_change
    found, link = keyring.find(home, name)
    if readers := _readers(home, link):
        leave = "; ".join(f"`router leave {found} --as {one}`" for one in readers[:READERS_SHOWN])
        more = f" (and {len(readers) - READERS_SHOWN} more, by `router keys`)" if len(readers) > READERS_SHOWN else ""
        raise Failure(Exit.FAILED, f"messages of {found} wait here for who has joined it; first {leave}{more}")
    keyring.remove_group(home, found)
    tell_services(home)
    if as_json:
        say_json(_row(found, link))
    else:
        say(f"the link of {found} is forgotten here; others who have it keep it")


def _readers(home: Home, link: GroupLink) -> list[str]:
    """Return the names of kept keys of apps that have joined the group at this home's node, which may be stopped."""
    from router.disk.store.file import subscribers

    if not home.holds_node:
        return []
    joined = asked_or_read(home, lambda: _joined(home, link.group), lambda: subscribers(home.store_path, link.group))
    names = keyring.key_names(home)
    return sorted(one for one in {names.get(key, "") for key in joined} if one and not one.startswith("service-"))


def _joined(home: Home, group: bytes) -> set[bytes]:
    return {bytes.fromhex(one["subscriber"]) for one in ask(home, "groups") if one["group"] == group.hex()}


def _row(name: str, link: GroupLink) -> dict[str, object]:
    return {"name": name, "group": link.group, "send": link.seed is not None, "check": link.check}


def _print_link(name: str, link: GroupLink, as_json: bool) -> None:
    if as_json:
        say_json({**_row(name, link), "link": link.text()})
    else:
        say(link.text())


def _hints(home: Home) -> tuple[Hint, ...]:
    """Return the routers by which others find a group of this home: its uplinks, or its own router if it can be
    dialled."""
    if not home.config_path.exists():
        return ()
    settings, _ = config.load(home.config_path)
    up = [Hint(one.address, addresses_of_node(one.urls)) for one in settings.peers if one.uplink and not one.blocked]
    found = tuple(one for one in up if one.addresses)
    if found or not (own := addresses(settings)):
        return found
    return (Hint(keyring.load_or_create(home, keyring.NODE).public, own),)
