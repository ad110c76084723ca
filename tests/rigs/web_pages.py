"""The answers of a router and of a DMQ node from which a page of metrics is made."""

from __future__ import annotations

from typing import Any

SECONDS = {"bounds": [0.5, 1.0], "within": [3, 4], "count": 5, "sum": 6.5}
WELL: dict[str, Any] = {
    "messages": [["accepted", "", 7], ["refused", "expired", 2], ["link_up", "", 9], ["bell_rung", "", 3]],
    "of_services": [["accepted", "", 4]],
    "queue": {"messages": 3, "bytes": 40, "messages_max": 100, "bytes_max": 1000},
    "links": {"local": 2, "peer": 1}, "groups": 1, "commits": 5, "log_seq": 9, "resident_bytes": 1 << 20, "unready": [],
    "alarms": {"unaccounted": 2},
    "seconds": {"delivery": SECONDS, "commit": SECONDS, "loop_lag": SECONDS}, "log_behind": 0, "unverified": 4,
    "store": {"used_bytes": 4096, "bytes_max": 1 << 30}, "disk": {"free_bytes": 1 << 30, "free_bytes_min": 1 << 28},
    "services": [{"name": "web", "module": "services.web", "state": "running", "starts": 2}],
}  # fmt: skip
DMQ = {"name": "signers", "module": "services.dmq", "state": "running", "starts": 1}
WITH_DMQ = {**WELL, "services": [*WELL["services"], DMQ]}
DMQ_STATUS: dict[str, Any] = {
    "accepted": 3, "rejected": {}, "verified": 3, "mempool": {"messages": 3, "bytes": 900}, "consumers": [],
    "clients": {"connected": 1, "broken_off": 0, "without_place": 0, "gave_way": 0},
    "stake": {"pools": 2, "age_s": 7.0, "is_of_epoch": True, "problem": ""},
    "nodes": {
        "cold": 0, "warm": 1, "hot": 2, "inbound": 1, "outbound": 2, "duplex": 3, "fetch_from_us": 1, "duplicates": 0,
        "full_duplex": 1, "hot_inbound": 1, "requests": {
            "blocking": 1, "pipelined": 2, "ids_requested": 99, "id_replies": 2, "ids_received": 3, "body_requests": 1,
            "bodies_requested": 3, "body_replies": 1, "bodies_received": 2, "bodies_omitted": 1,
        },
        "spaced_out": 0, "accepted": 2, "accepted_bytes": 600, "rejections": {}, "bytes_in": 900, "bytes_out": 90,
        "waiting_turns": {"peers": 1, "messages": 2},
        "doors": [{"listens_at": "127.0.0.1:3141", "connections": 2, "strangers": 1}],
        "hop_delay": {"median_s": 0.1, "p95_s": 0.1, "sum_s": 0.2, "buckets": [0, 2, *[0] * 9]},
    },
    "group": {"published": 1, "heard": 1, "duplicates": 0, "rejected": {}, "joined": True, "may_publish": True},
}  # fmt: skip
CAPD_STATUS: dict[str, Any] = {
    "messages": 2, "bytes": 700, "bytes_max": 1 << 20, "lines": {"relay": 8.0, "local": 7.0}, "neighbours": 1,
    "pools": 0, "refused": {"capd:too-fast": 1},
}  # fmt: skip
