"""`router dmq status`, `mempool`, `peers`, `reload`, `again`: the messages and rejections of a running node, the other
nodes, and the progress of its consumers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import clock_text, columns, facts, note, say, say_json, size_text
from router.cli.services import ask_service
from router.core.wire.text import age_text, counted
from services.dmq.core.messages.certificate import pool_text
from services.dmq.core.peers.away import AwayPeer, as_row
from services.dmq.core.peers.ledger import PHRASES, RelayStanding, counts_of
from services.dmq.home_node import service_name

_COUNTS = {"ANNOUNCED": "announced", "FIRST": "first", "ACCEPTED": "accepted"}
"""What is counted of a peer's messages."""
name_option = click.option("--name", help="The service's name, if there are several DMQ nodes in the home.")


def asked(name: str | None, word: str, argument: str = "") -> Any:
    """Return the answer of the home's DMQ node; raise `Failure` if there is none."""
    home = invocation().chosen_home
    if not home.holds_node:
        said = f"there is no node in the home {home.path}; name the DMQ node's home with --home or ROUTER_HOME"
        raise Failure(Exit.NO_NODE, f"{said}, or make one with `router dmq serve`")
    return ask_service(home, service_name(name), word, argument)


@click.command(cls=Command)
@name_option
@json_option
def status(name: str | None, as_json: bool) -> None:
    """Show the messages that the running node holds, has taken and rejected, and its consumers' progress."""
    found = asked(name, "status")
    if as_json:
        say_json(found)
        return
    mempool, stake = found["mempool"], found["stake"]
    rejected = ", ".join(f"{count} {word}" for word, count in found["rejected"].items()) or "none"
    facts(
        [
            ("mempool", f"{counted(mempool['messages'], 'message')}, {size_text(mempool['bytes'])}"),
            ("accepted", str(found["accepted"])),
            ("rejected", rejected),
            ("stake", _stake(stake)),
            ("nodes", about_nodes(found["nodes"])),
            *about_ledger(found["nodes"]["ledger"]),
            *([("group", about_group(found["group"]))] if found["group"] else []),
            *about_clients(found["clients"]),
        ]
    )
    rows = [
        (one["name"], "yes" if one["connected"] else "no", str(one["lag"]), str(one["set_aside"]))
        for one in found["consumers"]
    ]
    for one in found["named_no_more"]:
        until = f"named no more; forgotten at {clock_text(one['forgotten_at'], time.time())} UTC"
        rows.append((one["name"], until, str(one["lag"]), str(one["set_aside"])))
    columns(("CONSUMER", "CONNECTED", "TO READ", "SET ASIDE"), rows, "no durable consumers")


def about_clients(clients: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about the connections, as `status` answers: each a word and what is said; the numbers by cause
    sum up to that of the closed ones."""
    places = f"{clients['taken']} of {clients['places']} places of local_socket are taken"
    others, whole = clients["other_causes"], f"{clients['connected']}; {places}; the node has closed "
    return [
        ("clients", f"{whole}{clients['broken_off']}"),
        *(("", f"{count}: {cause}") for cause, count in clients["causes"].items()),
        *([("", f"and {others} for other causes")] if others else []),
    ]


def about_nodes(nodes: Mapping[str, Any]) -> str:
    """Return what is said of the other nodes."""
    said = f"{nodes['hot']} hot, {nodes['warm']} warm, {nodes['in_handshake']} in the handshake"
    if nodes["spaced_out"]:
        said += f"; {counted(nodes['spaced_out'], 'message')} expired before one of them would take them"
    if (median_s := nodes["hop_delay"]["median_s"]) is not None:
        said += f"; a message is here {median_s:g} s after it was announced, 95 of 100 within "
        said += f"{nodes['hop_delay']['p95_s']:g} s, for {nodes['bytes_in'] / nodes['accepted_bytes']:.2f} bytes a byte"
    if nodes["waiting_turns"]["peers"]:
        said += f"; {counted(nodes['waiting_turns']['messages'], 'message')} to be announced when the pool's turn comes"
    return f"{said}; {nodes['problem']}" if nodes["problem"] else said


def about_ledger(ledger: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the lines about the relays of the ledger, as `status` answers; none without a snapshot."""
    if ledger is None:
        return []
    said = f"{counted(ledger['relays'], 'relay')} in {ledger['snapshot']}"
    return [("ledger", said), *(("", one) for one in counts_of(ledger["standing"]))]


def about_group(group: Mapping[str, Any]) -> str:
    """Return what is said of the group that carries the topic."""
    may = "" if group["joined"] else ", not joined"
    may += "" if group["may_publish"] else ", its link is for reading only"
    rejected = sum(group["rejected"].values())
    said = f"{group['name']}{may}: {group['published']} published, {group['heard']} heard, {rejected} of it rejected"
    return f"{said}; {group['problem']}" if group["problem"] else said


def _stake(stake: dict[str, Any]) -> str:
    if stake["age_s"] is None:
        return stake["problem"] or "none: every message is refused until there is one"
    of_epoch = "" if stake["is_of_epoch"] else ", of another epoch"
    problem = f"; {stake['problem']}" if stake["problem"] else ""
    return f"{counted(stake['pools'], 'pool')}, {age_text(stake['age_s'])}{of_epoch}{problem}"


@click.command(cls=Command)
@name_option
@json_option
def mempool(name: str | None, as_json: bool) -> None:
    """List the live messages, in the order in which they were taken."""
    found: list[dict[str, Any]] = []
    after = 0
    while True:
        page = asked(name, "mempool", str(after))
        found += page["messages"]
        if not (after := page["next"]):
            break
    if as_json:
        say_json(found)
        return
    heads, rows = mempool_table(found, time.time())
    columns(heads, rows, "no messages")


def mempool_table(found: Sequence[Mapping[str, Any]], wall_s: float) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of live messages, with the times from which peers may hear of those that are kept back to
    after `wall_s`, if there are any, and those at which the last peer that waits for its pool's turn hears of it."""
    heads = ["NUMBER", "ID", "POOL", "BYTES", "EXPIRES (UTC)"]
    rows = [
        [str(one["number"]), one["id"], pool_text(one["pool"]), str(one["size"]), clock_text(one["expires_at"], wall_s)]
        for one in found
    ]
    if any(one["peers_at"] > wall_s for one in found):
        heads.append("FOR PEERS FROM (UTC)")
        for row, one in zip(rows, found, strict=True):
            row.append(clock_text(one["peers_at"], wall_s) if one["peers_at"] > wall_s else "")
    if any(one["turn_at"] > wall_s for one in found):
        heads.append("FOR ALL PEERS FROM (UTC)")
        for row, one in zip(rows, found, strict=True):
            row.append(clock_text(one["turn_at"], wall_s) if one["turn_at"] > wall_s else "")
    return heads, rows


@click.command(cls=Command)
@click.option("--all", "with_all", is_flag=True, help="List the relays of the ledger that are not connected as well.")
@name_option
@json_option
def peers(with_all: bool, name: str | None, as_json: bool) -> None:
    """List the other nodes to which the running node is connected, and those that its topology names and that are
    away: since when, and why."""
    answer = asked(name, "peers")
    found = answer["peers"]
    if answer["left_out"]:
        others = ", ".join(f"{count} {state}" for state, count in answer["left_out"].items())
        note(f"the first {len(found)} are listed; not listed: {others}")
    if answer["rejected_of_others"]:
        note(f"rejected of nodes that are not listed: {_by_reason(answer['rejected_of_others'])}")
    if with_all:
        found += [as_row(one["relay"], AwayPeer(0, PHRASES[RelayStanding(one["standing"])])) for one in _relays(name)]
    elif (ledger := asked(name, "status")["nodes"]["ledger"]) and not as_json:
        others = ledger["relays"] - ledger["standing"].get(RelayStanding.CONNECTED, 0)
        note(f"{counted(others, 'relay')} of the ledger not connected; --all lists them, `router dmq status` says why")
    if as_json:
        say_json(found)
        return
    heads, rows = peers_table(found, time.time())
    columns(heads, rows, "no other nodes are connected")


def _relays(name: str | None) -> Iterator[dict[str, str]]:
    """Yield the relays of the ledger that are not connected."""
    after = 0
    while True:
        page = asked(name, "relays", str(after))
        yield from page["relays"]
        if not (after := page["next"]):
            return


def peers_table(found: Sequence[Mapping[str, Any]], wall_s: float) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of other nodes, with the problems if there are any."""
    heads = ["ADDRESS", "STATE", "DIRECTION", "VERSION", "RTT (ms)", *_COUNTS, "REJECTED", "IN", "OUT", "SINCE (UTC)"]
    rows = [_peer(one, wall_s) for one in found]
    if any(one["problem"] for one in found):
        heads.append("PROBLEM")
        for row, one in zip(rows, found, strict=True):
            row.append(one["problem"])
    return heads, rows


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _peer(one: Mapping[str, Any], wall_s: float) -> list[str]:
    rejected = _by_reason(one["rejected"]) or "0"
    rtt = "-" if one["rtt_ms"] is None else f"{one['rtt_ms']:g}"
    counts = [str(one[key]) for key in _COUNTS.values()]
    sizes = [size_text(one["bytes_in"]), size_text(one["bytes_out"])]
    version = str(one["version"] or "-")
    return [
        one["address"],
        one["state"],
        one["direction"],
        version,
        rtt,
        *counts,
        rejected,
        *sizes,
        clock_text(one["since"], wall_s),
    ]


@click.command(cls=Command)
@name_option
@json_option
def reload(name: str | None, as_json: bool) -> None:
    """Let the running node read its topology and its ledger peer snapshot again, at once, and show what it has read."""
    found = asked(name, "reload")
    if found["problem"]:
        stays = "what was read before stays in force" if found["read"] else "until it can be read, no peer is dialled"
        raise Failure(Exit.FAILED, f"{found['problem']}; {stays}")
    if as_json:
        say_json(found)
    elif found["topology"] or found["snapshot"]:
        say(found["read"])
    else:
        say("neither a topology nor a ledger peer snapshot is named; set topology_file or ledger_snapshot")


@click.command(cls=Command)
@click.argument("consumer")
@click.argument("id", required=False, default="")
@name_option
@json_option
def again(consumer: str, id: str, name: str | None, as_json: bool) -> None:
    """Give messages again that were set aside for a consumer: all of them, or the one whose ID begins like this."""
    found = asked(name, "again", f"{consumer} {id}".rstrip())
    if as_json:
        say_json(found)
    else:
        say("\n".join(found["again"]) or "nothing is set aside for it")
