"""A scene for the saboteur: a fleet's logs that may be damaged, and the lines of them that still count.

`ledger.py` turns these lines into the numbers that an audit must reach.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from fleets.writing import TRUTH, keys_of, log_directory
from msgspec.structs import replace

from router.core.log.line import Line
from sabotage.ledger import Ledger, rows
from sabotage.logs import LogFile, Rows, read_rows, seal_again, segments

LEVELS = ("", "warning", "bad")


class NoLogLeft(Exception):
    """All logs of a fleet that are large enough have been changed, or must stay as they are."""


class Scene:
    """The changes to the logs, and the findings of an audit.

    `statuses`: files that are not good, with their status; `holes`: by router, sequence numbers before which messages
    without an end are unknown; `says`: words that the audit's texts must contain; `level`: the level of a finding that
    the changes must cause (docs/audit.md); `rewritten`: the routers of which the lines were changed, in order.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.truth: dict[str, Any] = json.loads((directory / TRUTH).read_text())
        self.as_of_ns: int = self.truth["as_of_ns"]
        self.chance = Random(f"saboteur {seed}")
        names: dict[str, str] = {one["router"]: one["name"] for one in self.truth["by_router"]}
        self.names = names
        keys = keys_of(directory)
        self.keys = {router: keys[name] for router, name in names.items()}
        self.logs = {router: log_directory(directory, name) for router, name in names.items()}
        self.statuses: dict[Path, str] = {}
        self.holes: dict[str, list[int]] = {router: [] for router in names}
        self.pruned: set[str] = set()
        self.says: list[str] = []
        self.rewritten: list[str] = []
        self.level = ""
        self._heads_are_gone = False
        self._untouched = sorted(names)
        self._sound: list[str] = []

    def __repr__(self) -> str:
        return f"<scene of {len(self.logs)} logs in {self.directory}: {self.says}>"

    # -- choosing --------------------------------------------------------------------------------------------

    def victim(self, segments_min: int = 1) -> str:
        """Choose a router whose log is untouched so far. Raise `NoLogLeft` without one."""
        able = [one for one in self._untouched if len(segments(self.logs[one])) >= segments_min]
        if not able:
            raise NoLogLeft
        chosen: str = self.chance.choice(able)
        self._untouched.remove(chosen)
        return chosen

    def touched(self) -> set[str]:
        """Return the routers of which the log was changed, or must stay as it is."""
        return {*self.names} - {*self._untouched}

    def spare(self, routers: Iterable[str]) -> None:
        """Let these routers, which were chosen and whose logs are untouched still, be chosen again."""
        self._untouched = sorted({*self._untouched, *routers})

    def core(self) -> str:
        """Choose a core whose log is untouched so far; sabotages that need one must run before others."""
        cores = [router for router in self._untouched if self.names[router].startswith("core")]
        assert cores, "every core has been touched: begin with who needs one"
        self._untouched.remove(cores[0])
        return cores[0]

    def brought(self) -> tuple[str, str]:
        """Return a router and the neighbour that brought it most messages of others, both with untouched logs: a core
        if there is one."""
        for router in sorted(self._untouched, key=lambda one: not self.names[one].startswith("core")):
            lines = read_rows(one.path for one in segments(self.logs[router]))
            peers = Counter(
                row.peer
                for row in lines
                if row.event == "accepted" and row.peer in self._untouched and row.peer not in (router, row.source)
            )
            if peers:
                peer = max(peers, key=lambda one: (peers[one], one))
                self._untouched.remove(router)
                self._untouched.remove(str(peer))
                return router, str(peer)
        raise AssertionError("of no two neighbours both logs are untouched: begin with who needs such")

    def handed(self) -> tuple[str, str]:
        """Return a router with an untouched log, and the neighbour to which it handed most messages: a core if there is
        one. The log of the latter stays as it is, and may be that of several such pairs."""
        able = [*self._sound, *sorted(self._untouched, key=lambda one: not self.names[one].startswith("core"))]
        for taker in able:
            lines = read_rows(one.path for one in segments(self.logs[taker]))
            peers = Counter(row.peer for row in lines if row.event == "accepted" and row.peer in self._untouched)
            del peers[taker]
            if peers:
                giver = str(max(peers, key=lambda one: (peers[one], one)))
                self._untouched.remove(giver)
                if taker not in self._sound:
                    self._untouched.remove(taker)
                    self._sound.append(taker)
                return giver, taker
        raise AssertionError(
            "no router with an untouched log handed anything to one whose log is so: begin with who needs such"
        )

    def sound(self, router: str) -> bool:
        """Let the log of this router stay as it is; return whether it was untouched so far."""
        if router in self._untouched:
            self._untouched.remove(router)
            self._sound.append(router)
        return router in self._sound

    def segment(self, segments_min: int = 1) -> LogFile:
        return self.chance.choice(segments(self.logs[self.victim(segments_min)]))

    # -- what it comes to ------------------------------------------------------------------------------------

    def lose(self, one: LogFile, status: str | None, *says: str) -> None:
        """Stop counting this segment; without a status it is missing."""
        if status is not None:
            self.statuses[one.path] = status
        self.holes[one.router].append(one.first)
        self.tell("bad" if status == "bad" else "warning", *says)

    def tell(self, level: str, *says: str) -> None:
        self.level = max(self.level, level, key=LEVELS.index)
        self.says += says

    def counted(self) -> list[Path]:
        """Return the files whose lines count."""
        found = sorted(self.directory.rglob("events-*.jsonl"))
        return [path for path in found if path.is_file() and path not in self.statuses]

    def expected(self) -> dict[str, Any]:
        """Return the numbers that the audit must reach."""
        ledger = Ledger(self.counted(), self.holes, self.as_of_ns, self.pruned)
        for router, firsts in self._witnessed(ledger).items():
            ledger.holes[router] = self.holes[router] + firsts
        return ledger.said()

    def _witnessed(self, ledger: Ledger) -> dict[str, list[int]]:
        """Return, by router, where its log ends before a head that it sent to neighbours."""
        found: dict[str, list[int]] = {router: [] for router in self.names}
        for row in ledger.lines.values():
            whose = row.get("fields", {}).get("peer")
            head = row.get("fields", {}).get("head_seq", 0)
            if row["event"] == "link" and whose in ledger.ends:
                end = ledger.ends[whose]
                if head > end["seq"] + end["n"] - 1:
                    found[whose].append(end["seq"] + end["n"])
        return found

    def heads(self, router: str) -> list[tuple[int, str]]:
        """Return the heads of this router's log that other routers' logs record, each with that router."""
        found = (row for path in self.counted() for row in rows(path) if row["event"] == "link")
        return [
            (row["fields"]["head_seq"], row["router"])
            for row in found
            if row["fields"]["peer"] == router and "head_seq" in row["fields"]
        ]

    # -- sealing again ---------------------------------------------------------------------------------------

    def forget_witnesses(self) -> None:
        """Write every log as if no pong had carried a head, so that a log can be sealed again without
        contradictions."""
        if self._heads_are_gone:
            return
        self._heads_are_gone = True
        for router, directory in self.logs.items():
            seal_again(directory, self.keys[router], without_heads, self.chance.randrange(4, 8))

    def again(self, router: str, change: Callable[[Rows], Rows], *, names_reasons: bool = True) -> None:
        parts = self.chance.randrange(4, 8)
        self.rewritten.append(router)
        seal_again(self.logs[router], self.keys[router], change, parts, names_reasons=names_reasons)


def without_heads(rows: Rows) -> Rows:
    """Return the lines as if no pong had carried the head of another log."""

    def plain(row: Line) -> Line:
        fields = {name: value for name, value in (row.fields or {}).items() if not name.startswith("head_")}
        return replace(row, fields=fields) if row.event == "link" else row

    return [plain(row) for row in rows]


def copied(fleet: Path, to: Path, seed: int) -> Scene:
    """Return a scene on a copy of the fleet's directory."""
    shutil.copytree(fleet, to)
    return Scene(to, seed)
