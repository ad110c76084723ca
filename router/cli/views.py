"""The operator's views of the running node: status, peers, queue, groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click

from router.cli.ask import ask, ask_peers
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.distinct_names import distinct
from router.cli.exits import Failure
from router.cli.guests import guest_problems
from router.cli.output import (
    address_text,
    clipped,
    columns,
    facts,
    named_address,
    offset_text,
    problems,
    say,
    say_json,
    short_text,
    size_text,
)
from router.cli.services import ask_service
from router.cli.version import own_version
from router.client.errors import NotAnswered
from router.core.service.roles import Role
from router.core.wire.text import counted, span_text
from router.settings.home import Home
from router.settings.names import Names

WHERE_MAX = 24
PUBSUB_WORDS = MappingProxyType({"not_taken": "kept until another core takes them"})


def _names() -> Names:
    return Names.of(invocation().home)


@click.command(cls=Command)
@json_option
def status(as_json: bool) -> None:
    """Show the running node at a glance."""
    home = invocation().home
    found = ask(home, "status")
    found["peers"] -= 1  # this command's own app
    found["pubsub"] = _ask_pubsub(home, found, "forwarding")
    if as_json:
        say_json(found)
    else:
        facts(_glance(found))


def _glance(found: dict[str, Any]) -> list[tuple[str, object]]:
    queue = found["queue"]
    return [
        ("address", address_text(found["address"])),
        ("role", found["role"]),
        *([("version", _version(one))] if (one := found.get("version")) else []),
        ("up", span_text(found["uptime_s"])),
        *(("listening", url) for url in found["listeners"]),
        *(("announced", _announced(one)) for one in found["announced"] if one["state"] == "next"),
        ("durability", found["durability"]),
        *([("restored", _restored(one))] if (one := found.get("restored")) else []),
        *([("copy", found["copy"]["problem"])] if found.get("copy") else []),
        *([("key", found["superseded"]["problem"])] if found.get("superseded") else []),
        *(("alarm", one["text"]) for one in found.get("alarms", ())),
        *([("clock", found["clock"]["problem"])] if found["clock"]["problem"] else []),
        *([("backup", backup_line(one))] if (one := found.get("backup")) else []),
        ("connections", found["peers"]),
        *(("guests", problem) for problem in guest_problems(found["guests"])),
        *(("invitation", _invited_line(one)) for one in found["invited"] if one["problem"]),
        *(row for one in found["services"] for row in service_rows(one)),
        ("queue", f"{counted(queue['messages'], 'message')}, {size_text(queue['bytes'])}"),
        ("since start", _counted(found["counters"])),
        *([("pub/sub", _counted(found["pubsub"], PUBSUB_WORDS))] if found["pubsub"] else []),
        ("reasons", _counted(found["reasons"])),
        *([("of services", said)] if (said := _of_services(found.get("of_services"))) else []),
    ]


def _version(running: str) -> str:
    """Return the version of the node, and what to do if the program was replaced since it was started."""
    if running == (own := own_version()):
        return running
    return f"{running}, and this command is {own}: start the node anew (`router service restart`, or as you start it)"


def _announced(one: dict[str, Any]) -> str:
    """Return an address to which this node moves, and from when on it is reached there."""
    return f"{one['url']}, from {time.strftime('%Y-%m-%d %H:%M', time.localtime(one['since_s']))} on"


def _restored(one: dict[str, int]) -> str:
    """Return when this home was restored, and from the snapshot of which moment."""
    on, moment = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one[name])) for name in ("restored_s", "snapshot_s")
    )
    if one["restored_s"] == one["snapshot_s"]:
        return f"on {on}, when it was kept of several nodes with its key"
    return f"on {on} from the snapshot of {moment}"


def backup_line(one: dict[str, Any]) -> str:
    """Return what there is of the snapshots that the node makes by itself, and what keeps it from making them."""
    said = f"every {span_text(one['every_s'])} into {one['directory']}, the newest {one['keep']} stay"
    if one["newest"]:
        age = "its time lies ahead of this clock" if one["age_s"] is None else f"{span_text(one['age_s'])} old"
        said += f"; {one['newest']}, {size_text(one['bytes'])}, {age}"
    else:
        said += "; there is none yet"
    said += ", one is being made" if one["running"] else f", the next in {span_text(one['next_s'])}"
    return f"{said}; the last attempt failed: {one['problem']}" if one["problem"] else said


def _invited_line(one: dict[str, Any]) -> str:
    return f"by {short_text('addr', bytes.fromhex(one['inviter']))}: {one['problem']}"


def service_rows(one: dict[str, Any]) -> list[tuple[str, object]]:
    """Return a line about the service, the last lines that its process printed, and what it refused."""
    rows: list[tuple[str, object]] = [
        ("service", service_line(one)),
        *(("", f"| {line}") for line in one["last_lines"]),
    ]
    if (refused := one.get("refused")) is not None:
        text = f': "{refused["text"]}"' if refused["text"] else ""
        said = f"refused {counted(refused['count'], 'time')}, last {span_text(refused['age_s'])} ago"
        rows.append(("", f"{said}, {refused['reason']}{text}"))
    return rows


def service_line(one: dict[str, Any]) -> str:
    """Return a line with the service's name, where it runs, its problem, and since when."""
    named = one["name"] + ("" if one["run"] == "inside" else f", {one['run']}")
    problem = f"{one['problem']} ({span_text(one['problem_age_s'])} ago)" if one["problem"] else ""
    if one["state"] == "running":
        return f"{named}: {problem}" if problem else named
    if one["run"] == "by-hand" and not problem:
        return f"{named}: away; start it with `python -m router.service.apart HOME {one['name']}`"
    return f"{named}: away; {problem or 'the cause is not known'}"


def _counted(counts: dict[str, int], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the counts that are not 0; `words`: what is printed in place of a name that does not say enough."""
    named = ((words.get(name, name.replace("_", " ")), count) for name, count in counts.items())
    return ", ".join(f"{count} {word}" for word, count in named if count) or "none"


def _of_services(found: dict[str, dict[str, int]] | None) -> str:
    """Return what the services of routers said to each other, with the reasons of what went no further; "" if
    nothing."""
    if found is None or not any(found["counters"].values()):
        return ""
    reasons = _counted(found["reasons"]) if found["reasons"] else ""
    return _counted(found["counters"]) + (f" ({reasons})" if reasons else "")


def _where(text: str) -> str:
    """Return where a neighbour is; of one in the node's own process that alone, since its name there tells nobody
    anything."""
    return "this process" if text.startswith("memory ") else text


@click.command(cls=Command)
@json_option
def peers(as_json: bool) -> None:
    """Show every neighbour and app: connected, away or blocked, and what is wrong with it."""
    found = ask_peers(invocation().home)
    names = _names()
    if as_json:
        say_json([{**one, "name": one["name"] or names.of_address(one["address"])} for one in found])
        return
    called = distinct([(one["name"] or names.of_address(one["address"]), one["address"]) for one in found])
    rows = [
        (
            name,
            one["state"],
            one["standing"],
            one["rtt_ms"],
            offset_text(one["offset_ms"]),
            clipped(_where(one["where"]), WHERE_MAX),
        )
        for name, one in zip(called, found, strict=True)
    ]
    columns(("NAME", "STATE", "STANDING", "RTT MS", "CLOCK", "WHERE"), rows, "nobody is connected")
    problems((row[0], one["problem"]) for row, one in zip(rows, found, strict=True))


@click.group(cls=CommandGroup, invoke_without_command=True)
@json_option
@click.pass_context
def queue(ctx: click.Context, as_json: bool) -> None:
    """Show how many messages wait for each recipient; `router queue drop RECIPIENT` drops them."""
    if ctx.invoked_subcommand is not None:
        return
    found = ask(invocation().home, "queue")
    names = _names()
    if as_json:
        say_json([{**one, "name": one["name"] or names.of_address(one["recipient"])} for one in found])
        return
    rows = [
        (
            *named_address(one["name"] or names.of_address(one["recipient"]), one["recipient"]),
            one["messages"],
            size_text(one["bytes"]),
            span_text(one["oldest_s"]),
            f"{max(_percent(one, 'messages'), _percent(one, 'bytes'))} %",
        )
        for one in found
    ]
    columns(("NAME", "RECIPIENT", "MESSAGES", "SIZE", "OLDEST", "FULL"), rows, "nothing waits")


def _percent(row: dict[str, Any], what: str) -> int:
    return int(100 * row[what] // row[f"limit_{what}"])


@queue.command("drop", cls=Command)
@click.argument("recipient")
@json_option
def drop(recipient: str, as_json: bool) -> None:
    """Drop all messages that wait for a RECIPIENT.

    Each of them ends `dropped`, reason `left`.
    """
    key = _names().address(recipient)
    found = ask(invocation().home, "drop", key.hex())
    if as_json:
        say_json({"recipient": key, **found})
    else:
        say(f"{counted(found['dropped'], 'message')} dropped")


@click.command(cls=Command)
@json_option
def groups(as_json: bool) -> None:
    """Show the groups of the running node and who has joined them.

    OVERLAY, if the node runs the pub/sub service, shows how many other routers are its neighbours in the group; whether
    the ring is whole, or a nearer router is known that was not met yet; how many copies of a message are sent on; how
    many missed messages came because they were asked for; and when the node last compared its messages with another's:
    those it lacked were then fetched, unless nobody had them."""
    found = ask(invocation().home, "groups")
    names, overlays = _names(), _overlays()
    rows = [
        {
            **one,
            "name": names.of_group(one["group"]),
            "subscriber_name": names.of_address(one["subscriber"]),
            "overlay": overlays.get(one["group"]),
        }
        for one in found
    ]
    if as_json:
        say_json(rows)
        return
    table = [
        (
            one["name"],
            short_text("group", bytes.fromhex(one["group"])),
            one["subscriber_name"] or short_text("addr", bytes.fromhex(one["subscriber"])),
            "this node" if one["local"] else "all",
            *([_overlay_text(one["overlay"])] if overlays else []),
        )
        for one in rows
    ]
    heads = ("NAME", "GROUP", "SUBSCRIBER", "FROM", *(["OVERLAY"] if overlays else []))
    columns(heads, table, "nobody has joined a group")


def _overlays() -> dict[str, dict[str, Any]]:
    """Return the pub/sub service's view of each group; empty if the node does not run that service."""
    home = invocation().home
    answer = _ask_pubsub(home, ask(home, "status"), "topics")
    found: dict[str, dict[str, Any]] = answer["topics"] if answer is not None else {}
    return found


def _ask_pubsub(home: Home, status: dict[str, Any], word: str) -> dict[str, Any] | None:
    """Return the answer of the node's pub/sub service; None if, according to `status`, the node runs none, or it is
    just not there to answer."""
    running = [
        one["name"] for one in status["services"] if one.get("role") == Role.OVERLAY and one["state"] == "running"
    ]
    if not running:
        return None
    try:
        answer: dict[str, Any] = ask_service(home, running[0], word)
    except (Failure, NotAnswered):
        return None
    return answer


def _overlay_text(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    neighbours = one["neighbours"]
    parts = ["1 neighbour" if neighbours == 1 else f"{neighbours or 'no'} neighbours"]
    if one["ring"] is not None and not (one["ring"] and not neighbours):  # alone on a ring, there is nothing whole
        parts.append("ring whole" if one["ring"] else "ring not whole")
    if one["copies"]:
        copies = f"{one['copies'] / max(1, one['received']):.3g}"
        parts.append(f"{copies} {'copy' if copies == '1' else 'copies'} a message")
    if one["repaired"]:
        parts.append(f"{one['repaired']:,} repaired")
    if (at_s := one["caught_up_s"]) is not None:
        parts.append(f"caught up {time.strftime('%H:%M', time.gmtime(at_s))} UTC")
    return ", ".join([*parts, *([f"{one['missing']:,} missing"] if one["missing"] else [])])
