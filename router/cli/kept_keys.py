"""`router keys`, `router keys renew` and `router leave`: kept keys, with which apps sign on under a name, and the
groups they have joined."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

import click

from router.cli import given_link, loop
from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import at_terminal, columns, note, say, say_json, short_text, time_text
from router.cli.streams import input_at_terminal
from router.client.errors import NodeUnavailable, NotAnswered
from router.client.node import connect
from router.client.options import state_of
from router.client.sealing.rows import CORRESPONDENTS, OWN_PREKEYS
from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.renewal import Renewal, encode_renewal
from router.core.wire.succession import KeySuccession
from router.core.wire.text import age_text, key_text, quoted, span_text
from router.disk.state.environment import StateError
from router.settings import keyring, own_successions, renewed_keys
from router.settings.config_services import key_name
from router.settings.home import Home, HomeBusy
from router.settings.names import Names
from router.settings.renewed_keys import RenewalError

ROTATES_S, AGAIN_S = 60.0, 0.3
"""How long the node may take to begin anew with another key, and how often it is asked meanwhile."""
JUST_NOW_S = 3600
"""For how long after a rotation another one is asked about: the command may only have been repeated."""
SERVICE = key_name("")
"""How the names of services' keys begin."""

Found = TypeVar("Found")


@click.group(cls=CommandGroup, invoke_without_command=True)
@json_option
@click.pass_context
def keys(ctx: click.Context, as_json: bool) -> None:
    """List the keys kept here: how old each is, how many prekeys it has and how many addresses it exchanges messages
    with, and the groups that it has joined if the node runs.

    An app signs on with a kept key by `--as NAME`. Messages to the groups that the key has joined wait
    while it is away.
    """
    if ctx.invoked_subcommand is not None:
        return
    home = invocation().home
    joined = _joined(home)
    former = keyring.former_addresses(home)
    rows = [_row(home, name, address, joined, former) for name, address in keyring.addresses(home).items()]
    if as_json:
        say_json(rows)
        return
    names = Names.of(home)
    table = [
        (
            one["name"],
            short_text("addr", one["address"]),
            one["kind"],
            age_text(time.time() - one["made_s"]).removesuffix(" old") + ", renewed" * bool(one["former"]),
            "?" if one["prekeys"] is None else one["prekeys"],
            "?" if one["correspondents"] is None else one["correspondents"],
            "?" if one["groups"] is None else " ".join(_group(names, key) for key in one["groups"]),
        )
        for one in rows
    ]
    columns(
        ("NAME", "ADDRESS", "KIND", "AGE", "PREKEYS", "WRITES TO", "HAS JOINED"),
        table,
        "no keys yet; `router init` makes the node's key",
    )
    if joined is None:
        note("no node is running: which groups they have joined is not known")


@keys.command(cls=Command)
@click.argument("name")
@click.option("--url", metavar="URL", help="Where the app signs on by url=: unix:///HOME/router.sock of another home.")
@json_option
def renew(name: str, url: str | None, as_json: bool) -> None:
    """Give the kept key NAME a new one in its place, which is a new address.

    Groups, rights and waiting messages go to the new key; for seven days so does what still comes to the old address.
    The old key is good for nothing then. A running app of that name signs on anew by itself.
    """
    home = invocation().home if url is None else invocation().chosen_home
    home.check_format()
    _check_renewable(name)
    try:
        said = _renewed(home, name) if url is None else _renewed_at(home, name, url)
    except RenewalError as error:
        raise Failure(Exit.USAGE, str(error)) from None
    if as_json:
        say_json({"name": name, "address": said.new, "former": said.old, "read_until_s": said.until_s})
        return
    say(key_text("addr", said.new))
    note(f"that is the address of {name} now; what comes to the old one is read until {time_text(said.until_s)}")


_again = click.option(
    "--again", is_flag=True, help="Give it yet another key if it has had the present one for less than an hour."
)


@keys.command("rotate-node", cls=Command)
@_again
@json_option
def rotate_node(again: bool, as_json: bool) -> None:
    """Give this node another key, and so another address. One that runs ends for a moment, and starts again by itself.

    Queues, groups, rights and log stay. Neighbours follow when they are linked to it the next time, as do invitations
    that were made before; for thirty days it also answers to the old address. The old key is kept nowhere.
    """
    from router.settings import node_rotation

    home = invocation().home_to_change
    if not again and not node_rotation.has_begun(home):
        present = keyring.load(home, keyring.NODE).public
        _check_age("this node", [one for one in own_successions.read(home.key_path.parent) if one.new == present])
    try:
        with home.lock():
            said = node_rotation.rotate(home, int(time.time()))
    except HomeBusy as busy:
        said = _rotated_by_the_node(home, busy)
    if as_json:
        say_json({"address": said.new, "former": said.old, "answers_until_s": said.until_s})
        return
    say(key_text("addr", said.new))
    until = time_text(said.until_s)
    note(f"that is the address of this node from now on; the old one is answered until {until}")
    note("make a new backup: an older one brings back the old key, which the neighbours refuse by then")


@keys.command(cls=Command)
@click.argument("service")
@_again
@json_option
def rotate(service: str, again: bool, as_json: bool) -> None:
    """Give a SERVICE of this node, such as pubsub, another key, and so another address.

    The node ends for a moment, and starts again by itself. What waits for the service, its groups, its state and what
    it has granted stay; for seven days it also has what comes to its old address. Neighbours hear of another key of
    pubsub and discovery when they are linked the next time; whoever names another service by its address is to be told.
    """
    home = invocation().home_to_change
    name = _service_key(home, service)
    said = _rotated(home, name, again)
    if as_json:
        say_json({"name": name, "address": said.new, "former": said.old, "read_until_s": said.until_s})
        return
    say(key_text("addr", said.new))
    note(f"that is the address of {name} now; what comes to the old one is read until {time_text(said.until_s)}")
    note("make a new backup: an older one brings back the old key")


def _check_age(whose: str, statements: Sequence[KeySuccession | Renewal]) -> None:
    """Ask whether a key is to be rotated that came by a rotation just now; end the command if not, or if nobody can be
    asked. `statements`: those of its rotations, the newest last."""
    if not statements or abs(age_s := time.time() - statements[-1].from_s) >= JUST_NOW_S:
        return
    address = key_text("addr", statements[-1].new)
    said = f"{whose} got its present key by a rotation {span_text(max(0.0, age_s))} ago ({address})"
    if input_at_terminal() and at_terminal():
        if click.confirm(f"{said}; give it yet another one", err=True):
            return
        raise Failure(Exit.USAGE, "nothing was changed")
    raise Failure(Exit.USAGE, f"{said}; nothing was changed: give --again for yet another one")


def _service_key(home: Home, service: str) -> str:
    """Return the name of the key of a service, given its own name or that of its key."""
    kept = keyring.names(home)
    if found := next((one for one in (key_name(service), service) if one in kept and one.startswith(SERVICE)), None):
        return found
    services = ", ".join(one.removeprefix(SERVICE) for one in kept if one.startswith(SERVICE))
    said = f"{quoted(service, 60)} is no service of this node; its services are: {services or 'none'}"
    if service == keyring.NODE:
        said = "the key of this node is given another one by `router keys rotate-node`"
    elif service in kept:
        said = f"{service} is the key of an app: `router keys renew {service}` gives another one in its place"
    raise Failure(Exit.USAGE, said)


def _rotated(home: Home, name: str, again: bool) -> Renewal:
    """Begin to rotate the key of a service on the disk, and have the running node start again by the new one."""
    try:
        if not again and name not in renewed_keys.begun(home.key_path.parent):
            _check_age(name, renewed_keys.statements(home.key_path.parent, name))
        later = f"{name} gets its new key when the node starts; until then it stays what it is"
        said = _begun(home, name, "rotate-service", later)
    except RenewalError as error:
        raise Failure(Exit.USAGE, str(error)) from None

    def runs_by_the_new_key() -> bool | None:
        services = ask(home, "status")["services"]
        return any(one["address"] == said.new.hex() for one in services) or None

    _until_anew(runs_by_the_new_key, "`router keys` lists which key it has")
    return said


def _rotated_by_the_node(home: Home, busy: HomeBusy) -> KeySuccession:
    """Have the running node end, get another key and start again; return the statement."""
    try:
        old = bytes.fromhex(ask(home, "rotate")["former"])
    except NodeUnavailable:
        raise Failure(Exit.FAILED, f"{busy}; wait until that has ended, and repeat this command") from None
    return _until_anew(partial(_now_instead_of, home, old), "`router id` prints which key it has")


def _until_anew(look: Callable[[], Found | None], remedy: str) -> Found:
    """Ask again and again until the node has begun anew with another key, and return the answer. `look` returns None,
    or fails, until then. Raise `Failure` if that takes too long."""
    until_s = time.monotonic() + ROTATES_S
    while True:
        with suppress(Failure, RouterError):
            if (found := look()) is not None:
                return found
        if time.monotonic() > until_s:
            late = f"the node has not begun anew with another key within {ROTATES_S:g} s"
            raise Failure(Exit.TIMED_OUT, f"{late}; its log says why, and {remedy}")
        time.sleep(AGAIN_S)


def _now_instead_of(home: Home, old: bytes) -> KeySuccession | None:
    """Return the statement by which another key has the place of the old one, None until the node runs by that."""
    chain = own_successions.load(home.key_path.parent, keyring.load(home, keyring.NODE).public)
    said = next((one for one in chain if one.old == old), None)
    return said if said is not None and ask(home, "copy") else None


def _renewed(home: Home, name: str) -> Renewal:
    """Renew the key of that name: begin on the disk, tell the node, finish on the disk. Raise `RenewalError`."""
    said = _begun(
        home, name, "renew", f"the key of {name} is renewed when the node starts; until then it stays what it is"
    )
    renewed_keys.finish(home.key_path.parent, name, said)
    return said


def _begun(home: Home, name: str, word: str, later: str) -> Renewal:
    """Begin on the disk to give a key another one in its place, and tell the node by `word`; nothing has begun if the
    node refuses. `later`: what the operator is told where no node runs. Raise `RenewalError`."""
    folder = home.key_path.parent
    said = renewed_keys.begin(folder, name, partial(keyring.load, home, name), int(time.time()))
    try:
        ask(home, word, encode_renewal(said).hex())
    except NodeUnavailable:
        raise Failure(Exit.NO_NODE, f"no node is running: {later}") from None
    except Failure:
        renewed_keys.give_up(folder, name, said)
        raise
    return said


def _renewed_at(home: Home, name: str, url: str) -> Renewal:
    """Renew a key of this home at the node of another home, which is told over its owner's socket."""
    if not url.startswith("unix://"):
        why = "a node takes renewals from its owner alone, over its socket: unix:///HOME/router.sock"
        raise Failure(Exit.USAGE, f"{why}; for a node on another machine make a key under a new name, and let that in")
    folder, elsewhere = home.key_path.parent, renewed_keys.ELSEWHERE
    said = renewed_keys.begin(folder, name, partial(keyring.load, home, name), int(time.time()), elsewhere)
    try:
        ask(home, "renew", encode_renewal(said).hex(), url=url)
    except (NodeUnavailable, NotAnswered) as error:  # it may have taken it
        raise Failure(Exit.NO_NODE, f"{error}; repeat the command: until then {name} keeps its key") from None
    except Failure:
        renewed_keys.give_up(folder, name, said, elsewhere)
        raise
    renewed_keys.finish(folder, name, said, elsewhere)
    return said


def _check_renewable(name: str) -> None:
    """End the command for the key of the node or of a service, which begins anew with another one."""
    if name == keyring.NODE:
        raise Failure(Exit.USAGE, "the key of this node is given another one by `router keys rotate-node`")
    if name.startswith(SERVICE):
        command = f"router keys rotate {name.removeprefix(SERVICE)}"
        raise Failure(Exit.USAGE, f"{name} is the key of a service: `{command}` gives another one in its place")


@click.command(cls=Command)
@click.argument("group")
@click.option(
    "--as", "as_name", metavar="NAME", required=True, help="The kept key that leaves; `router keys` lists them."
)
@json_option
def leave(group: str, as_name: str, as_json: bool) -> None:
    """Leave a GROUP that a kept key has joined.

    The group's messages that wait for the key end `dropped`, reason `left`, and no more are kept for it.
    """
    given_link.warn_of_secret(group, given_link.KEEP_GROUP)
    home = invocation().home
    key = keyring.load(home, as_name).public
    found = loop.run(_leave, home, group, as_name)
    if as_json:
        say_json({"name": as_name, "address": key, "group": found})
    else:
        say(f"{as_name} has left {_group(Names.of(home), found.hex())}")


def check_name(home: Home, name: str | None) -> None:
    """Announce that signing on with this name makes a new key; at a terminal, ask first if the name looks mistyped."""
    known = keyring.names(home)
    if name is None or name in known or name == keyring.NODE:
        return
    home.check_format()
    near = get_close_matches(keyring.checked(name), [one for one in known if one != keyring.NODE], n=1)
    if near and input_at_terminal() and at_terminal():
        asked = f'there is no key "{name}", but one "{near[0]}"; make a new one'
        if not click.confirm(asked, err=True):
            raise Failure(Exit.USAGE, f"nothing was made or sent; give --as {near[0]}")
    address = key_text("addr", keyring.load_or_create(home, name).public)
    like = f' (did you mean "{near[0]}"?)' if near else ""
    kept = f"messages of the groups it joins wait for it until `router leave GROUP --as {name}`"
    note(f'made a new key "{name}", {address}{like}; {kept}')


async def _leave(home: Home, group: str, as_name: str) -> bytes:
    async with connect(home=home, as_name=as_name) as node:
        found = node.group(group)
        await node.leave(found)
        return found.key


def _joined(home: Home) -> list[dict[str, Any]] | None:
    """Return the groups that each key has joined at the running node; None if none runs."""
    try:
        found: list[dict[str, Any]] = ask(home, "groups")
    except NodeUnavailable:
        return None
    return found


def _row(
    home: Home, name: str, address: PublicKey, joined: list[dict[str, Any]] | None, former: dict[PublicKey, str]
) -> dict[str, Any]:
    groups = None if joined is None else [one["group"] for one in joined if one["subscriber"] == address.hex()]
    kind = "node" if name == keyring.NODE else "service" if name.startswith(SERVICE) else "app"
    return {
        "name": name,
        "address": address,
        "kind": kind,
        "made_s": keyring.made_s(home, name),
        "former": [old for old, whose in former.items() if whose == name],
        **_sealing(home, name),
        "groups": groups,
    }


def _sealing(home: Home, name: str) -> dict[str, int | None]:
    """Return how many prekeys and correspondents an app has; None if its state cannot be read, which is said."""
    state = state_of(home, name)
    if state.path is None or not state.path.exists():
        return {"prekeys": 0, "correspondents": 0}
    try:
        with closing(state):
            return {"prekeys": len(state.rows(OWN_PREKEYS)), "correspondents": len(state.rows(CORRESPONDENTS))}
    except StateError as error:
        note(str(error))
        return {"prekeys": None, "correspondents": None}


def _group(names: Names, hex_key: str) -> str:
    return names.of_group(hex_key) or short_text("group", bytes.fromhex(hex_key))
