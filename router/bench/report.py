"""Write `docs/measured.md`, one part for each kind of run; writing one part leaves the others unchanged."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from router.bench.noise import machine

Row = dict[str, Any]
TITLE = "# Measured"
GOALS, ATTACKS, FIRST_MESSAGES = "Goals", "Under attack", "First messages"


def write_goals(path: Path, goals: list[Row]) -> None:
    """Write the measured values with their goals, and the rows behind them."""
    lines = [
        "Ratios are taken in one run beside bare PyNaCl verification of the same messages; throughput is the middle of "
        "three runs; differences of nearly equal rates are told with the range that their median lies in (90 %).",
        "",
        "| figure | measured | goal | met |",
        "|---|---|---|---|",
        *(f"| {one['title']} | {one['told']} | {one['goal']} | {one['verdict']} |" for one in goals),
        "",
        "The rows behind them:",
        "",
        *(f"- {one['title']}: {', '.join(_details(one['row']))}" for one in goals),
    ]
    write_part(path, GOALS, "router bench --goals --report", lines)


def write_attacks(path: Path, rows: list[Row], links: int, mbit_per_s: float) -> None:
    """Write the rate and latency of an honest pair under each attack."""
    lines = [
        f"Two local apps of a core beside {links} links of strangers, who write {mbit_per_s:g} Mbit/s at most in all. "
        "`rate`: what arrives of half the quiet rate; `p50`: the latency at 200/s as a multiple of the quiet one; "
        "`flat out`: the rate as fast as it goes, as a share of the quiet one, while the attackers take as many cores "
        "of the same machine as stands in the last column. `datagrams` has a pair of its own, apps of two nodes on a "
        "local network, and a flood of 10,000 datagrams a second there, forged, foreign, stale and cut short; the "
        "nodes' memory may grow by a twentieth, and they dial nobody. `announcements` is the same pair beside 100 "
        "datagrams a second, in turn valid ones of ever new keys and wrong ones in the names of the two nodes; a new "
        "node is met within 60 s (`newcomer_s`).",
        "",
        "| attack | rate (at least 0.9) | p50 (at most 2) | lost or refused | met | flat out | attackers' cores |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {one['attack']} | {rate} | {p50} | {lost} | {one['verdict']} | {flat} | {cores} |"
            for one in rows
            for rate, p50, lost, flat, cores in [attack_cells(one)]
        ),
        "",
        "The rows behind them:",
        "",
        *(f"- {', '.join(_details(one))}" for one in rows),
    ]
    write_part(path, ATTACKS, "router bench --hostile --report", lines)


def write_first_messages(path: Path, rows: list[Row], cells: Iterable[tuple[str, ...]]) -> None:
    """Write how soon those who meet hear each other, by each way to meet."""
    rounds, loads = max(len(one["seconds"]) for one in rows), sorted(one["load"] for one in rows if one["seconds"])
    lines = [
        f"{rounds} rounds by each way, of nodes that run before and know nothing of each other; each command is a "
        "process of its own, and nobody types a key. By invitation: from the start of `router invite` on a core until "
        "the first message of one laptop is heard on another; both take the same link by `router peer add`, one as a "
        "picture, then an app starts on each. On a LAN: two nodes in network namespaces, whose apps are in the group "
        "before; from the start of `router lan on` at the second until each has heard the other. Where multicast "
        "reaches one of the two only, that is the first in half of the rounds. "
        + (f"Load while it ran: {loads[0]:g} to {loads[-1]:g}." if loads else ""),
        "",
        "| way to meet | median, longest | goal | met |",
        "|---|---|---|---|",
        *(f"| {' | '.join(one)} |" for one in cells),
        "",
        "The rounds, in seconds:",
        "",
        *(f"- {one['title']}: {', '.join(f'{each:.2f}' for each in one['seconds'])}" for one in rows if one["seconds"]),
    ]
    write_part(path, FIRST_MESSAGES, "router bench --meet --report", lines)


def attack_cells(row: Row) -> tuple[str, str, str, str, str]:
    """Return the figures of an attack's row as text; an attack that was left out has none."""
    if "rate" not in row:
        return "", "", "", "", ""
    lost = str(row["lost_or_refused"])
    return f"{row['rate']:.3f}", f"{row['p50']:.2f}", lost, f"{row['flat_out']:.2f}", f"{row['attackers_cores']:.2f}"


def write_part(path: Path, part: str, command: str, lines: Iterable[str]) -> None:
    """Write one part of the report, with its title and what wrote it; the others stay as they are."""
    parts = _parts(path)
    when = f"Written by `{command}` on {time.strftime('%Y-%m-%d')}, on {machine()}."
    parts[part] = "\n".join([f"## {part}", "", when, *lines])
    order = sorted(parts, key=lambda one: one != GOALS)
    path.write_text("\n\n".join([TITLE, *(parts[one] for one in order)]) + "\n", "utf-8")


def _parts(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    return {one.partition("\n")[0]: f"## {one}".rstrip() for one in text.split("\n## ")[1:]}


def _details(row: Row) -> list[str]:
    return [f"{name} {value:,.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()]
