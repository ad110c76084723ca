"""Answers to operators that stay within what a service may answer."""

from __future__ import annotations

import json

from services.dmq.core.peers.away import CAUSE_CHARS_MAX, NAME_CHARS_MAX, AwayPeer, as_row
from services.dmq.core.peers.rejections import ADDRESSES_MAX, PeerRejections
from services.dmq.core.questions import PEERS_SHOWN, peers_shown

ANSWER_BYTES_MAX = 64_512


def test_strangers_in_all_places_hide_no_peer_from_the_operator() -> None:
    silent = as_row("n" * NAME_CHARS_MAX, AwayPeer(2e9, "c" * CAUSE_CHARS_MAX))
    rows = [silent | {"state": "handshake"}] * 510 + [silent | {"state": "cold"}, silent | {"state": "hot"}]
    answer = peers_shown(rows, PeerRejections())
    assert [one["state"] for one in answer["peers"]][:3] == ["hot", "cold", "handshake"]
    assert len(answer["peers"]) == PEERS_SHOWN and answer["left_out"] == {"handshake": 512 - PEERS_SHOWN}
    assert len(json.dumps(answer)) < ANSWER_BYTES_MAX


def test_few_are_listed_whole() -> None:
    row = as_row("192.0.2.1:1", AwayPeer(0.0, ""))
    assert peers_shown([row], PeerRejections()) == {"peers": [row], "left_out": {}, "rejected_of_others": {}}


def test_what_was_rejected_is_counted_for_the_address_or_among_others() -> None:
    rejections = PeerRejections()
    for address in ("192.0.2.1:1", *(f"192.0.2.2:{port}" for port in range(ADDRESSES_MAX)), "192.0.2.3:1"):
        rejections.note(address, "dmq:expired")
    rejections.note("192.0.2.3:1", "dmq:bad-signature")
    rows = [as_row(one, AwayPeer(0.0, ""), rejections.of(one)) for one in ("192.0.2.1:1", "192.0.2.3:1")]
    assert [one["rejected"] for one in rows] == [{}, {"dmq:bad-signature": 1, "dmq:expired": 1}]
    others = peers_shown(rows, rejections)["rejected_of_others"]
    assert others == {"dmq:expired": ADDRESSES_MAX + 1} and rejections.total["dmq:expired"] == ADDRESSES_MAX + 2
