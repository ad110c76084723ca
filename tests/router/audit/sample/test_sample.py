"""The sample's logs are such as nodes write, and its truth is what is in them."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sabotage.ledger import Ledger, rows, unlike
from sabotage.logs import digest, segments
from samples.log_facts import read_log

from router.audit.sample.fleet import Fleet, signing_key
from router.audit.sample.sample import TRUTH, SampleFailed, Written, log_directory, write_sample

SEED = 8
SHAPES = [(1, 400), (2, 800), (3, 60), (4, 1500), (12, 1500), (30, 600)]


def truth_of(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / TRUTH).read_text())
    return found


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/log/events-*.jsonl"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    directory = tmp_path_factory.mktemp("sample")
    return directory, write_sample(directory, 12, 6000, SEED, segment_bytes=200_000)


def test_every_segment_is_what_a_node_would_have_sealed(sample: tuple[Path, Written]) -> None:
    directory, written = sample
    found = 0
    for place in Fleet(SEED, 12).places:
        key = signing_key(SEED, place.name)
        log = read_log(log_directory(directory, place.name), key.public)
        assert log.problems == []
        found += log.evidence.logs[0].segments
    assert found == written.segments > 2 * written.nodes


def test_it_says_how_much_it_wrote(sample: tuple[Path, Written]) -> None:
    directory, written = sample
    lines = [row for path in logs(directory) for row in rows(path)]
    assert written.nodes == len(list(directory.glob("*/log"))) == 12
    assert written.lines == len(lines)
    assert written.events == sum(row["n"] for row in lines)
    assert written.bytes == sum(path.stat().st_size for path in logs(directory))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 60))])
def test_the_truth_is_what_the_lines_add_up_to(seed: int, tmp_path: Path) -> None:
    nodes, messages = SHAPES[seed % len(SHAPES)]
    write_sample(tmp_path, nodes, messages, seed)
    truth = truth_of(tmp_path)
    assert truth["messages"] == messages and truth["residual"] == truth["unaccounted"] == truth["unknown"] == 0
    assert unlike(truth, Ledger(logs(tmp_path), {}, truth["as_of_ns"]).said()) == []


def test_all_that_happens_to_messages_happens(sample: tuple[Path, Written]) -> None:
    directory, _ = sample
    truth = truth_of(directory)
    seen = {(row["event"], row["reason"], row["at_door"]) for row in truth["reasons"]}
    assert all(truth[state] for state in ("delivered", "acked", "unconfirmed", "refused", "expired", "pending"))
    assert truth["redelivered"] and truth["deferred"] and truth["dropped"]
    assert seen >= {
        ("duplicate", "duplicate", True), ("expired", "ttl-expired", False), ("dropped", "left", False),
        ("deferred", "rate-limited", False), ("refused", "queue-full-recipient", False),
        ("refused", "recipient-offline-ttl0", False), ("refused", "bad-signature", True),
    }  # fmt: skip


def test_nodes_live_as_nodes_do(sample: tuple[Path, Written]) -> None:
    """They boot again, links come and go, groups and routes too; neighbours witness heads that are there."""
    directory, _ = sample
    lines = [row for path in logs(directory) for row in rows(path)]
    events = Counter(row["event"] for row in lines)
    assert events["start"] > 12 and all(
        events[one] for one in ("stop", "config", "link_up", "link_down", "join", "leave", "route_add", "clock_step")
    )
    heads = {(one.router, one.last, digest(one.path)) for log in directory.glob("*/log") for one in segments(log)}
    told = [row["fields"] for row in lines if row["event"] == "link"]
    invented = {(one["peer"], one["head_seq"], one["head_digest"]) for one in told} - heads
    assert told and not invented


def test_most_traffic_is_one_groups_and_comes_in_bursts(sample: tuple[Path, Written]) -> None:
    directory, _ = sample
    big = signing_key(SEED, "group-000").public.hex()
    accepted = [row for path in logs(directory) for row in rows(path) if row["event"] == "accepted"]
    share = sum(row.get("group") == big for row in accepted) / len(accepted)
    assert 0.75 < share <= 1
    sizes = [row["n"] for row in accepted]
    assert sizes.count(1) > len(sizes) / 2 and max(sizes) > 128 and 3 < sum(sizes) / len(sizes) < 6


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        write_sample(tmp_path / name, 5, 300, seed)
    digests = [
        sha256(b"".join(map(Path.read_bytes, logs(tmp_path / name)))).digest() for name in ("one", "two", "other")
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_sample_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / TRUTH).symlink_to("/dev/full")
    (tmp_path / "core-000").mkdir()
    with pytest.raises(SampleFailed, match=rf"^the disk of {tmp_path} is full: .*; nothing of the sample is left$"):
        write_sample(tmp_path, 3, 90, 1)
    assert {path.name for path in tmp_path.iterdir()} == {TRUTH, "core-000"}, "they were there"
    (tmp_path / "file").touch()
    with pytest.raises(SampleFailed, match=r"file/out/core-000/log: Not a directory; nothing of the sample is left"):
        write_sample(tmp_path / "file" / "out", 3, 90, 1)
