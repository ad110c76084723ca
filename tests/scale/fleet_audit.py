"""Measure audits of large fleets: `PYTHONPATH=tests .venv/bin/python -m scale.fleet_audit growth|skew|increment …`.

`growth`: audits of more and more lines, by the local engine and of the most lines by Spark too. `skew`: Spark's audit
of a fleet of which one router has 90 % of the lines and one recipient 99 % of the messages, beside an even fleet of the
same size in as many files, and in few, with adaptive plans and without. `increment`: the stream's cost of a night's new
files beside a whole audit, in a process of its own each night, or, with `--standing`, in one that goes on. Each other
audit is a process of its own. Prints a line for each, and a table of figures with goals.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from router.actors.process import program
from router.audit.java import java_home
from router.bench.goal import Goal, table
from router.core.wire.lifetime import SECOND_NS as SECOND
from scale.audit_scale import Cost, cost_of, spent_by
from scale.shaped_logs import END_NS, Shape, write_shape
from scale.spark_events import Work, with_events, work_in

AS_OF = datetime.fromtimestamp(END_NS // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
FILE_LINES = 4_000
LINES_OF_A_FLEET = 10**8
"""The lines of the fleet that is reckoned, not run."""
NOT_ADAPTIVE = """
import runpy, sys
from spark_analytics.batch import audit
audit.FEW_BYTES = 1 << 62
sys.argv[0] = "router"
runpy.run_module("router", run_name="__main__", alter_sys=True)
"""
"""A program that is `router`, but takes all logs for few bytes, of which each step is planned once."""
STANDING_S = 10.0
"""Seconds after which a stream that goes on looks for new files."""
SAME = ("owed", "delivered", "acked", "pending", "residual", "verdict")
"""The counts of a summary that must be the same in all audits of the same logs."""


@dataclass
class Audited:
    """An audit's cost, and what its summary says of its seconds, lines, and deliveries."""

    cost: Cost
    audit_s: float
    lines: int
    said: dict[str, Any]
    work: Work | None = None

    def __str__(self) -> str:
        cost = self.cost
        text = f"{self.lines:,} lines, {self.audit_s:.1f} s, CPU {cost.cpu_s:.1f} s, {cost.rss_mib:,.0f} MiB"
        if self.work is None:
            return text
        return f"{text}; {self.work}"


def audited(logs: Path, base: Path, engine: str, *, adaptive: bool = True, tables: bool = False) -> Audited:
    """Audit these logs in a process of its own."""
    place = Path(tempfile.mkdtemp(dir=base))
    command = program("router") if adaptive else [sys.executable, "-P", "-c", NOT_ADAPTIVE]
    command += ["audit", str(logs), "--as-of", AS_OF, "--engine", engine, "--memory", "2GB", "--json"]
    command += ["--out", str(place / "out")] if tables else []
    is_spark = engine == "spark"
    text, cost = cost_of(command, with_events(place / "spark") if is_spark else None)
    found = _audited(json.loads(text), cost)
    if is_spark:
        found.work = work_in(place / "spark")
    shutil.rmtree(place)
    return found


def _audited(summary: dict[str, Any], cost: Cost) -> Audited:
    lines = sum(row["lines"] for row in summary["events"])
    seconds = summary["run"].get("seconds", 0.0)  # a stream with nothing new tells none
    return Audited(cost, seconds, lines, {name: summary[name] for name in SAME})


def said(name: str, found: Audited) -> Audited:
    print(f"{name}: {found}", flush=True)
    return found


def even(lines: int, base: Path) -> Path:
    return written(Shape(lines, files=lines // FILE_LINES), base, "even")


def check_same(*found: Audited) -> None:
    """Print the counts of audits of the same logs if they are not the same."""
    if any(one.said != found[0].said for one in found):
        print("DIFFERENT:", *(one.said for one in found), sep="\n", flush=True)


def written(shape: Shape, base: Path, name: str) -> Path:
    """Return the directory with the logs of this shape, which are written if an earlier run did not."""
    directory = base / f"{name.replace(' ', '-')}-{shape.lines}"
    if not directory.exists():
        draft = directory.with_suffix(".unfinished")
        write_shape(shape, draft)
        draft.rename(directory)
    return directory


# -- growth ---------------------------------------------------------------------------------------------------------


def growth(base: Path, sizes: Sequence[int], *, by_spark: bool) -> Iterator[Goal]:
    """Yield how the cost of the local engine grows with the lines, and how Spark compares at the most of them."""
    logs = {lines: even(lines, base) for lines in sizes}
    local = [said("local", audited(logs[lines], base, "local")) for lines in sizes]
    first, last = local[0], local[-1]
    yield Goal(f"CPU of {last.lines:,} lines ÷ of {first.lines:,}", last.cost.cpu_s / first.cost.cpu_s, 10.5, False)
    power = math.log(last.cost.cpu_s / local[-2].cost.cpu_s) / math.log(last.lines / local[-2].lines)
    factor = LINES_OF_A_FLEET / last.lines
    yield Goal("power of the lines with which CPU grows", power)
    yield Goal(f"CPU seconds of {LINES_OF_A_FLEET:,} lines, reckoned", last.cost.cpu_s * factor**power)
    yield Goal(f"seconds of {LINES_OF_A_FLEET:,} lines, reckoned", last.audit_s * factor**power)
    if by_spark:
        spark = said("spark", audited(logs[sizes[-1]], base, "spark"))
        check_same(spark, last)
        assert spark.work is not None
        yield Goal("Spark ÷ local, seconds", spark.audit_s / last.audit_s, 2, False)
        yield Goal("bytes shuffled a line", spark.work.shuffled / spark.lines, 100, False)
        yield Goal("bytes spilled", spark.work.spilled)


# -- skew -----------------------------------------------------------------------------------------------------------


def skew(base: Path, lines: int, files: int) -> Iterator[Goal]:
    """Yield how Spark's audit of a lopsided fleet compares with that of an even one in as many files, and how that of
    an even one in few files does."""
    logs = {
        "even": written(Shape(lines, files=files), base, f"even {files}"),
        "lopsided": written(Shape(lines, files=files, first=0.9, one=0.99), base, f"lopsided {files}"),
        "even in few files": even(lines, base),
    }
    for adaptive in (True, False):
        plans = "adaptive plans" if adaptive else "plans made once"
        found = {
            name: said(f"{name}, {plans}", audited(logs[name], base, "spark", adaptive=adaptive, tables=True))
            for name in logs
        }
        beside = found.pop("even")
        for name, one in found.items():
            goal = 1.3 if name == "lopsided" else None
            yield Goal(f"{name} ÷ even, {plans}, seconds", one.audit_s / beside.audit_s, goal, False)
            yield Goal(f"{name} ÷ even, {plans}, CPU", one.cost.cpu_s / beside.cost.cpu_s)


# -- increment ------------------------------------------------------------------------------------------------------


def increment(base: Path, lines: int, nights: int, days: int, *, is_standing: bool) -> Iterator[Goal]:
    """Yield what the stream's audit of 1 % more files costs, beside a whole audit with tables. `days`: how many the
    lines are spread over; `is_standing`: one process takes all nights."""
    logs = written(Shape(lines, files=lines // FILE_LINES, days=days), base, f"even {days}d")
    whole = {name: said(f"whole, {name}", audited(logs, base, name, tables=True)) for name in ("local", "spark")}
    grown = Path(tempfile.mkdtemp(dir=base))
    java_home(grown / "java")
    files = sorted(logs.rglob("events-*.jsonl"), key=end_ns)
    each = len(files) // 100
    parts = [files[: -nights * each], *(files[len(files) - at * each :][:each] for at in range(nights, 0, -1))]
    spent_s = [*(standing if is_standing else nightly)(grown, logs, parts)]
    rest = streamed(grown)
    check_same(rest, *whole.values())
    shutil.rmtree(grown)
    night = min(spent_s[1:])
    yield Goal("a night ÷ Spark's whole audit, CPU", night / whole["spark"].cost.cpu_s, 0.05, False)
    yield Goal("a night ÷ the local engine's whole audit, CPU", night / whole["local"].cost.cpu_s)
    yield Goal("CPU seconds of a night", night)
    yield Goal("CPU seconds of a run with nothing new", rest.cost.cpu_s)


def nightly(grown: Path, logs: Path, parts: Iterable[Sequence[Path]]) -> Iterator[float]:
    """Yield the CPU seconds of a stream's runs, one for each part of the files."""
    for part in parts:
        link(part, logs, grown / "logs")
        yield said(f"stream, {len(part)} files more", streamed(grown)).cost.cpu_s


def standing(grown: Path, logs: Path, parts: Iterable[Sequence[Path]]) -> Iterator[float]:
    """Yield the CPU seconds of the batches of a stream that goes on, one for each part of the files."""
    before_s, (first, *rest) = 0.0, parts
    link(first, logs, grown / "logs")
    command = [one for one in _stream(grown) if one != "--once"] + ["--every", str(STANDING_S)]
    with subprocess.Popen(
        command, env=os.environ | {"JAVA_HOME": str(grown / "java")}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as stream:  # fmt: skip
        assert stream.stderr is not None
        for line in stream.stderr:
            if " after " not in line:
                continue
            time.sleep(STANDING_S / 2)  # what the batch leaves to do
            now_s, mib = spent_by(stream.pid)
            print(f"{line.strip()}, CPU {now_s - before_s:.1f} s, {mib:,.0f} MiB", flush=True)
            yield now_s - before_s
            before_s = now_s
            if not rest:
                stream.send_signal(signal.SIGINT)
                break
            link(rest.pop(0), logs, grown / "logs")
        else:
            sys.exit(f"the stream ended with code {stream.wait()} before it had taken all nights")
        stream.communicate()


def end_ns(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return int(json.loads(file.read().splitlines()[-1])["max_t"])


def link(files: Iterable[Path], source: Path, target: Path) -> None:
    """Let files of a directory appear in another one, as a copy does that is renamed when it is whole."""
    for path in files:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, place)


def _stream(grown: Path) -> list[str]:
    arguments = [str(grown / "logs"), "--out", str(grown / "out"), "--as-of", str(END_NS), "--once", "--json"]
    return program("spark_analytics.streaming", *arguments)


def streamed(grown: Path) -> Audited:
    text, cost = cost_of(_stream(grown), os.environ | {"JAVA_HOME": str(grown / "java")})
    return _audited(json.loads(text), cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, help="keep the logs here, for later runs")
    kinds = parser.add_subparsers(dest="kind", required=True)
    own = kinds.add_parser("growth")
    own.add_argument("--lines", type=int, nargs="+", default=[750_000, 2_400_000, 7_500_000])
    own.add_argument("--spark", action="store_true", help="audit the most lines by Spark too")
    own = kinds.add_parser("skew")
    own.add_argument("--lines", type=int, default=2_400_000)
    own.add_argument("--files", type=int, default=10_000)
    own = kinds.add_parser("increment")
    own.add_argument("--lines", type=int, default=2_400_000)
    own.add_argument("--nights", type=int, default=2)
    own.add_argument(
        "--days", type=int, default=100, help="how many the lines are spread over, of which a night has 1 %%"
    )
    own.add_argument("--standing", action="store_true", help="one stream goes on over all nights")
    given = parser.parse_args()
    if given.kind == "increment" and not 1 <= given.nights < 100 <= given.lines // FILE_LINES:
        parser.error(f"1 % of the files is a night: 1 to 99 of them, and {100 * FILE_LINES:,} lines at least")
    with tempfile.TemporaryDirectory() as temporary:
        base = given.base or Path(temporary)
        base.mkdir(parents=True, exist_ok=True)
        if given.kind == "growth":
            found = growth(base, given.lines, by_spark=given.spark)
        elif given.kind == "skew":
            found = skew(base, given.lines, given.files)
        else:
            found = increment(base, given.lines, given.nights, given.days, is_standing=given.standing)
        print("\n".join(table([*found], 3)))


if __name__ == "__main__":
    main()
