"""Answers to operators that stay within what a service may answer."""

from __future__ import annotations

import json

from services.dmq.core.peers.away import CAUSE_CHARS_MAX, NAME_CHARS_MAX, AwayPeer, as_row
from services.dmq.core.questions import PEERS_SHOWN, peers_shown

ANSWER_BYTES_MAX = 64_512


def test_strangers_in_all_places_hide_no_peer_from_the_operator() -> None:
    silent = as_row("n" * NAME_CHARS_MAX, AwayPeer(2e9, "c" * CAUSE_CHARS_MAX))
    rows = [silent | {"state": "handshake"}] * 510 + [silent | {"state": "cold"}, silent | {"state": "hot"}]
    answer = peers_shown(rows)
    assert [one["state"] for one in answer["peers"]][:3] == ["hot", "cold", "handshake"]
    assert len(answer["peers"]) == PEERS_SHOWN and answer["left_out"] == {"handshake": 512 - PEERS_SHOWN}
    assert len(json.dumps(answer)) < ANSWER_BYTES_MAX


def test_few_are_listed_whole() -> None:
    row = as_row("192.0.2.1:1", AwayPeer(0.0, ""))
    assert peers_shown([row]) == {"peers": [row], "left_out": {}}
