"""Pruning the log removes whole segments and keeps their signed footers."""

from pathlib import Path

from samples.log_facts import read_log
from samples.logs import BOOT, KEY, Store, file_lines, names, open_log, outward, problems, seal_each

from router.core.log.events import encode_events

# -- pruning ----------------------------------------------------------------------------------------------


def test_segments_older_than_the_time_to_keep_go_and_leave_their_footers(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    footers = [path.read_bytes().splitlines(keepends=True)[-1] for path in sorted(tmp_path.glob("events-*"))]
    assert segments.prune(250, 150, 1 << 30) == 0
    assert segments.prune(251, 151, 1 << 30) == 0
    assert segments.prune(350.5, 150, 1 << 30) == 2
    assert names(tmp_path) == ["events-0000000000000003.jsonl", "pruned.jsonl"]
    assert (tmp_path / "pruned.jsonl").read_bytes() == b"".join(footers[:2])
    assert (tmp_path / "pruned.jsonl").stat().st_mode & 0o777 == 0o600
    assert (problems(tmp_path), segments.last_sealed()) == ([], 3)


def test_segments_beyond_the_size_to_keep_go_oldest_first(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    size = sum(path.stat().st_size for path in tmp_path.glob("events-*"))
    assert segments.prune(300, 1e6, size) == 0
    assert segments.prune(300, 1e6, size - 1) == 1
    assert names(tmp_path) == [
        "events-0000000000000002.jsonl", "events-0000000000000003.jsonl", "pruned.jsonl",
    ]  # fmt: skip
    assert problems(tmp_path) == []


def test_a_log_that_is_pruned_away_goes_on_where_it_was(tmp_path: Path) -> None:
    head = seal_each(tmp_path, 100, 200).head()
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 1 << 30) == 2
    segments, sealer = open_log(tmp_path)
    assert (segments.head(), names(tmp_path)) == (head, ["pruned.jsonl"])
    assert not sealer.add(encode_events([outward(2)], 2, BOOT), 0)
    sealer.add(encode_events([outward(3)], 3, BOOT), 0)
    assert sealer.seal() == 3
    assert problems(tmp_path) == []
    assert [seal.is_kept for seal in read_log(tmp_path, KEY.public).evidence.seals] == [False, False, True]
    assert segments.prune(1e6, 1, 1 << 30) == 1
    assert [line.first_seq for line in file_lines(tmp_path / "pruned.jsonl")] == [1, 2, 3]


def test_an_old_event_keeps_its_place_behind_a_younger_one(tmp_path: Path) -> None:
    """The chain is pruned from its old end only, whatever the times of its events are."""
    segments = seal_each(tmp_path, 300, 100, 200)
    assert segments.prune(350, 100, 1 << 30) == 0


def test_a_damaged_segment_is_not_pruned(tmp_path: Path) -> None:
    seal_each(tmp_path, 100, 200)
    first = tmp_path / "events-0000000000000001.jsonl"
    first.write_bytes(first.read_bytes() + b"{}\n")
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 0) == 1
    assert names(tmp_path) == ["events-0000000000000001.jsonl", "pruned.jsonl"]


def test_pruned_footers_fold_when_they_grow_too_large(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path, pruned_bytes=4000)
    store = Store()
    for at_s in range(60):
        sealer.add(store.commit(outward(at_s)), 0)
        sealer.seal()
        segments.prune(1e6, 1, 0)
        assert (tmp_path / "pruned.jsonl").stat().st_size <= 4000
    footers = file_lines(tmp_path / "pruned.jsonl")
    assert (footers[0].first_seq, footers[-1].last_seq) == (1, 60)
    assert sum(footer.segments for footer in footers) == 60 > 10 > len(footers)
    assert sum((footer.counts or {})["delivered"] for footer in footers) == 60
    assert problems(tmp_path) == []
    assert open_log(tmp_path)[0].head() == segments.head()


def test_folding_signs_nothing_that_was_tampered_with(tmp_path: Path) -> None:
    seal_each(tmp_path, *range(6)).prune(1e6, 1, 0)
    pruned = tmp_path / "pruned.jsonl"
    pruned.write_bytes(pruned.read_bytes().replace(b'"last_seq":2', b'"last_seq":8'))
    segments, sealer = open_log(tmp_path, pruned_bytes=1)
    sealer.add(encode_events([outward(7)], 7, BOOT), 0)
    sealer.seal()
    segments.prune(1e6, 1, 0)
    assert [(line.first_seq, line.last_seq) for line in file_lines(pruned)] == [
        (1, 1), (3, 3), (2, 8), (4, 4), (5, 5), (6, 6), (7, 7),
    ]  # fmt: skip
    text = "a footer over the sequence numbers 2 to 8 that says they are 1"
    assert problems(tmp_path) == [
        f"pruned.jsonl:3: not the footer of a pruned segment: {text}",
        f"events 2 to 2: {pruned} cannot be believed, and no other file holds them",
    ]


def test_segment_from_the_future_is_as_old_as_the_next_one(tmp_path: Path) -> None:
    """Its clock was 40 days ahead, and was set."""
    day = 86_400
    segments = seal_each(tmp_path, 100, 40 * day, 200, 300)
    assert segments.prune(200 + day - 1, day, 1 << 30) == 1
    assert segments.prune(200 + day + 1, day, 1 << 30) == 2
    assert names(tmp_path) == ["events-0000000000000004.jsonl", "pruned.jsonl"]
    assert problems(tmp_path) == []


def test_newest_segment_from_the_future_is_kept(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 9000)
    assert segments.prune(8000, 10, 1 << 30) == 1
    assert segments.prune(9020, 10, 1 << 30) == 1


def test_segment_from_the_past_is_as_young_as_the_one_before(tmp_path: Path) -> None:
    """Its clock was behind, as after a start without a battery: it goes with its neighbours, not at once."""
    segments = seal_each(tmp_path, 1000, 1, 1100)
    assert segments.prune(1050 + 100, 200, 1 << 30) == 0
    assert segments.prune(1050 + 200, 200, 1 << 30) == 2
