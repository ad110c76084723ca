"""A rich summary as `router audit --json` prints it, from a seed: four routers, twelve hours, every kind of finding."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

from spark_analytics.judgement.evidence import Evidence, File, Hole, Log
from spark_analytics.judgement.latency import bucket
from spark_analytics.judgement.log_files import Problem
from spark_analytics.report.summary import build

START = 29_554_920  # 12 March 2026, 06:00 UTC, in minutes since 1970
STEP, WINDOWS = 10, 72
AS_OF_NS = (START + STEP * WINDOWS + 2) * 60 * 10**9
HOSTILE = "<script>alert(1)</script>\"'&\u202e"
STATES = (
    "delivered",
    "acked",
    "unconfirmed",
    "refused",
    "expired",
    "dropped",
    "evicted",
    "unknown",
    "pending",
    "unaccounted",
)

Row = dict[str, Any]


def key(name: str) -> str:
    """A made-up key: 64 hex digits."""
    return sha256(name.encode()).hexdigest()


ROUTERS = [key(f"router {i}") for i in range(4)]


def findings(seed: int = 7) -> dict[str, list[Row]]:
    """Return findings with losses about 13:40, a hole in two logs, a filling queue, a flapping link, and bad
    signatures."""
    random = Random(seed)
    windows = [_window(random, router, i) for router in ROUTERS for i in range(WINDOWS)]
    totals = [_totals(router, windows) for router in ROUTERS]
    unknown = {row["router"]: row["unknown"] for row in totals}
    app = key("app 0")
    return {
        "span": [{"min_minute": START, "max_minute": START + STEP * WINDOWS - 1}],
        "totals": totals,
        "distinct": [{"messages": 61_204, "accepted_again": 812}],
        "windows": windows,
        "latency": _latency(random),
        "hops": _hops(random),
        "queues": _queues(random),
        "due": [{"router": ROUTERS[0], "recipient": app, "due_ns": AS_OF_NS + 720 * 10**9}],
        "reasons": _reasons(),
        "routes": _routes(random),
        "flaps": [
            {"router": ROUTERS[i % 4], "subject": key(f"peer {i}") if i else HOSTILE, "changes": 240 // (i + 1)}
            for i in range(14)
        ],
        "abuse": _abuse(random),
        "custody": _custody(),
        "broken": [
            {"router": ROUTERS[0], "recipient": ROUTERS[2], "id": key(f"broken {i}"), "seq": i} for i in range(3)
        ],
        "unaccounted": [
            {
                "router": ROUTERS[2],
                "parcel": 190_211 + 64 * i,
                "recipient": key(f"app {i % 3}"),
                "signer": key(f"signer {i % 2}"),
                "count": 9 - i,
                "id": key(f"lost {i}") if i else HOSTILE,
            }
            for i in range(6)
        ],
        "spans": [
            {"router": ROUTERS[1], "hole_first": 204_801, "unknown": unknown[ROUTERS[1]]},
            {"router": ROUTERS[3], "hole_first": 88_412, "unknown": unknown[ROUTERS[3]]},
        ],
        "events": [
            {"router": router, "event": event, "lines": lines, "count": lines * 3}
            for router in ROUTERS
            for event, lines in (("accepted", 61_000), ("delivered", 140_000), ("start", 2), (HOSTILE, 1))
        ],
        "future": [{"router": ROUTERS[3], "lines": 17, "latest_t": AS_OF_NS + 7_000 * 10**9}],
        "ends": [{"router": router, "seq": 1, "t": AS_OF_NS - 831 * 10**9} for router in ROUTERS],
        "configs": [{"router": router, "fields": {"queue_messages_max": "2500"}} for router in ROUTERS[:2]],
        "quality": [
            {"check": "negative wait", "router": ROUTERS[1], "count": 12},
            {"check": "unknown event word", "router": ROUTERS[0], "count": 4},
            {"check": "problems", "router": None, "count": 2},
        ],
    }


def evidence() -> Evidence:
    """Return a good log with an open tail, one with a changed file, and one whose end only a neighbour knows."""
    a, b, c, d = ROUTERS
    bad, tail, odd = (
        "/logs/b/events-0000000000204801.jsonl",
        "/logs/a/tail-0000000000402771.jsonl",
        f"/logs/{HOSTILE}.jsonl",
    )
    problems = (Problem(bad, 5312, "this line is not what the footer was signed over"), Problem(odd, 0, "it is empty"))
    holes = (
        Hole(b, 204_801, 231_007, f"{bad} cannot be believed"),
        Hole(d, 88_412, 90_100, f"its neighbour {a} heard of event 90100, the log ends at 88411"),
    )
    return Evidence(
        files=(
            File(tail, a, "tail", 402_771, 411_902, 9_132),
            File(bad, b, "bad", 204_801, 231_007, 26_207),
            File("/logs/d/pruned.jsonl", d, "pruned", 12_001, 30_000, 4),
            File(odd, None, "foreign", 0, 0, 0),
        ),
        holes=holes,
        problems=problems,
        logs=(
            Log(a, 14, 1, 411_902, True, 64_000, ()),
            Log(b, 9, 1, 302_118, False, 0, (str(problems[0]), holes[0].why)),
            Log(c, 6, 1, 190_400, True, 0, ()),
            Log(d, 3, 12_001, 88_411, False, 30_000, (holes[1].why,)),
        ),
        limits=("Of the logs of 2 routers no neighbour heard: whether their ends were cut off cannot be known.",),
        seals=(),
        authentic=frozenset(),
    )


def sample(seed: int = 7) -> Row:
    return build(findings(seed), evidence(), AS_OF_NS, "duckdb", {"seconds": 3.2, "version": "0.1.0"})


def _window(random: Random, router: str, i: int) -> Row:
    weight = (5, 3, 2, 1)[ROUTERS.index(router)]
    owed = int(weight * (420 + 260 * (1 - abs(i - 40) / 40) + random.random() * 90))
    row = dict.fromkeys(STATES, 0)
    row["acked"] = int(owed * 0.38)
    row["expired"] = int(owed * 0.004 * random.random()) + (140 * weight if 50 <= i <= 53 else 0)
    row["refused"] = random.randrange(4) * (i % 3 == 0)
    row["evicted"] = 60 * (weight == 2 and i > 64)
    row["dropped"] = 3 * (weight == 3 and i == 22)
    row["unconfirmed"] = random.randrange(12)
    row["unaccounted"] = {45: 3, 46: 31, 47: 5}.get(i, 0) * (weight == 2)
    row["unknown"] = random.randrange(40, 200) * (weight == 3 and 30 <= i <= 36) + 44 * (weight == 1 and i == 60)
    row["pending"] = int(owed * max(0.0, (i - 66) / 12))
    row["delivered"] = owed - sum(row.values())
    return {"router": router, "window": START + STEP * i, "owed": owed, **row}


def _totals(router: str, windows: list[Row]) -> Row:
    mine = [row for row in windows if row["router"] == router]
    sums = {name: sum(row[name] for row in mine) for name in ("owed", *STATES)}
    more = {
        "accepted": sums["owed"] // 3,
        "copies": 0,
        "deliveries": sums["delivered"] + 1,
        "duplicates": 1,
        "forwards": sums["owed"],
    }
    return {"router": router, **sums, **more, "redelivered": 340, "deferred": 12, "contradictions": 0, "strays": 9}


def _spread(p50_ms: float, slow: float, count: int) -> list[Row]:
    """Return buckets of `count` waits about that median: a half, 45 %, 4 % and 1 % of them, each slower than the
    last."""
    found = []
    for part, factor in ((50, 1.0), (45, 8.0), (4, 40 * slow**0.5), (1, 300 * slow)):
        ns = int(p50_ms * factor * 1e6)
        found.append({"bucket": bucket(ns), "count": max(1, count * part // 100), "max_ns": ns})
    return found


def _latency(random: Random) -> list[Row]:
    return [
        {"event": event, "window": START + STEP * i, **row}
        for event, base in (("delivered", 1.1), ("acked", 6.2))
        for i in range(WINDOWS)
        if not (30 <= i <= 32 and event == "acked")
        for slow in [60.0 if 44 <= i <= 48 else 1.0]
        for row in _spread(base * (0.9 + random.random() * 0.3) * slow**0.3, slow, 900 + i)
    ]


def _hops(random: Random) -> list[Row]:
    return [
        {"router": router, "recipient": to, "event": "delivered" if to is None else "acked", **row}
        for i, router in enumerate(ROUTERS)
        for to in (None, *[other for other in ROUTERS if other != router][: 3 - i // 2])
        for row in _spread(1.2 * (1 + i) * (1 if to is None else 5) * (0.8 + random.random()), 1, 12_000 // (i + 1))
    ]


def _queues(random: Random) -> list[Row]:
    found = []
    for number in range(6):
        waiting = 0
        for i in range(WINDOWS):
            added = random.randrange(40, 90)
            falls_behind = (number == 0 and i > 30) or (number == 1 and 20 < i < 30)
            ended = min(waiting + added, int(added * 0.35) if falls_behind else added + 9 * (number == 1))
            waiting += added - ended
            row = {"added": added, "ended": ended, "open": waiting, "depth_max": waiting + random.randrange(30)}
            found.append(
                {"router": ROUTERS[number % 4], "recipient": key(f"app {number}"), "window": START + STEP * i, **row}
            )
    return found


def _reasons() -> list[Row]:
    found = [
        ("expired", "ttl-expired", False, 3_812),
        ("expired", "expiry-passed", False, 201),
        ("refused", "peer-refused", False, 160),
        ("evicted", "queue-full-recipient", False, 420),
        ("dropped", "store-damaged", False, 3),
        ("refused", HOSTILE, False, 2),
        ("deferred", "rate-limited", False, 61),
        ("refused", "bad-signature", True, 77_777),
    ]
    return [
        {"router": ROUTERS[i % 4], "event": event, "reason": reason, "at_door": at_door, "count": n}
        for i, (event, reason, at_door, n) in enumerate(found)
    ]


def _routes(random: Random) -> list[Row]:
    return [
        {"router": router, "window": START + STEP * i, "event": event, "count": n}
        for router in ROUTERS
        for i in range(WINDOWS)
        for event, often in (
            ("route_add", 3),
            ("route_del", 3),
            ("link_up", 9),
            ("link_down", 9),
            ("join", 5),
            ("advert", 2),
        )
        if (n := random.randrange(1, 6) + (14 if 44 <= i <= 49 and "link" in event else 0))
        and random.randrange(often) == 0
    ]


def _abuse(random: Random) -> list[Row]:
    hour = START // 60
    found = [
        (f"stranger {n}", reason, hour + h, random.randrange(1, 40 if n else 4000))
        for n, reason in ((0, "bad-signature"), (1, "duplicate"), (2, "expiry-too-far"), (3, "rate-limited"))
        for h in range(n, 12, 1 + n)
    ]
    return [
        {
            "router": ROUTERS[0],
            "hour": at,
            "peer": key(peer) if peer != "stranger 3" else HOSTILE,
            "prefix": None,
            "signer": key("signer 9") if n % 2 else None,
            "reason": reason,
            "event": "duplicate" if reason == "duplicate" else "refused",
            "count": n,
            "lines": min(n, 60),
        }
        for peer, reason, at, n in found
    ]


def _custody() -> list[Row]:
    rows = (
        (0, 1, 9_120, 9_120, 0, 0, -1_800_000, 2_400_000),
        (0, 2, 4_030, 4_027, 3, 0, 41_000_000, 44_500_000),
        (1, 3, 2_210, 1_700, 0, 510, -900_000, None),
        (2, 3, 310, 0, 0, 310, None, None),
    )
    return [
        {
            "router": ROUTERS[a],
            "recipient": ROUTERS[b],
            "acked": n,
            "followed": f,
            "broken": x,
            "unknown": u,
            "lower_ns": lo,
            "upper_ns": up,
        }
        for a, b, n, f, x, u, lo, up in rows
    ]
