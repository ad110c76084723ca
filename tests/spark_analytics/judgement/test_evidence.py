"""From files to evidence: what counts, what is missing, and what nobody can know, whatever the order of the files."""

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from samples.log_facts import evidence
from samples.logs import KEY, OTHER
from samples.segments import ROUTER, last_line, numbered, prune, tail, write_log

from router.core.log.line import Line, encode_lines
from router.core.log.line import decode_line as as_line
from router.core.log.segment import file_name, fold, header, sign
from router.core.wire.crypto import SigningKey, verify
from spark_analytics.judgement.chain import TWO_HISTORIES
from spark_analytics.judgement.evidence import (
    DISPUTED,
    NO_LOG,
    REWRITTEN,
    Evidence,
    Gap,
    Hole,
    Witness,
    judge,
    witnessed,
)
from spark_analytics.judgement.footer import decode_line
from spark_analytics.judgement.log_files import UNREACHABLE, FileFacts, Problem

STRANGER = OTHER.public.hex()
ONE, TWO, THREE, FOUR = (file_name(seq) for seq in (1, 3, 5, 7))
NOT_GIVEN = "no file given holds them"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write four segments of two events each: 1 to 8."""
    return write_log(tmp_path / "log")


def statuses(found: Evidence) -> dict[str, str]:
    return {Path(file.path).name: file.status for file in found.files}


def holes(found: Evidence) -> list[tuple[int, int, str]]:
    return [(hole.first_seq, hole.last_seq, hole.why) for hole in found.holes]


def problems(found: Evidence) -> list[str]:
    return [str(problem).rpartition("/")[2] for problem in found.problems]


# -- a log as it should be --------------------------------------------------------------------------------


def test_a_whole_log(log: Path) -> None:
    found = evidence(log)
    assert [file[1:] for file in found.files] == [(ROUTER, "good", seq, seq + 1, 2) for seq in (1, 3, 5, 7)]
    assert (found.holes, found.problems) == ((), ())
    [summary] = found.logs
    assert summary == (ROUTER, 4, 1, 8, True, 0, (), str(log))


def test_a_pruned_log_is_whole(log: Path) -> None:
    prune(log, ONE, TWO)
    found = evidence(log)
    assert statuses(found) == {"pruned.jsonl": "pruned", THREE: "good", FOUR: "good"}
    assert (found.holes, found.problems, found.logs[0][1:]) == ((), (), (2, 5, 8, True, 4, (), str(log)))
    prune(log, THREE, FOUR)
    found = evidence(log)
    assert (found.holes, found.problems, found.logs[0][1:]) == ((), (), (0, 0, 8, True, 8, (), str(log)))


def test_a_segment_pruned_in_one_copy_of_the_log_still_counts_from_another(log: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "other")
    prune(other, ONE, TWO)
    found = evidence(log, other)
    assert [file.status for file in found.files] == ["good"] * 4 + ["copy"] * 2 + ["pruned"]
    assert (found.holes, found.problems, found.logs[0][1:]) == ((), (), (4, 1, 8, True, 0, (), str(log)))


def test_folded_footers_cover_what_they_stand_for(log: Path) -> None:
    from_file = [last_line(log / name) for name in (ONE, TWO, THREE)]
    folded = encode_lines(fold([as_line(line) for line in from_file], KEY))
    prune(log, ONE, TWO, THREE)
    (log / "pruned.jsonl").write_bytes(folded)
    found = evidence(log)
    assert (found.holes, found.problems, found.logs[0][1:]) == ((), (), (1, 7, 8, True, 6, (), str(log)))
    (log / "pruned.jsonl").write_bytes(folded.replace(b'"segments":3', b'"segments":4'))
    found = evidence(log)
    assert holes(found) == [(1, 6, NOT_GIVEN)]
    assert statuses(found)["pruned.jsonl"] == "bad"


def test_a_tail_goes_on_where_the_segments_end(log: Path) -> None:
    digest = decode_line(last_line(log / FOUR))["sha256"]
    (log / "tail-9.jsonl").write_bytes(tail(numbered(9, 12), digest))
    found = evidence(log)
    assert (found.holes, found.problems, found.logs[0][1:]) == ((), (), (4, 1, 12, True, 0, (), str(log)))
    assert found.limits[-1] == "The lines of tail files are not sealed yet: no signature vouches for them."
    (log / "tail-9.jsonl").write_bytes(tail(numbered(11, 12)))
    assert holes(evidence(log)) == [(9, 10, NOT_GIVEN)]


def test_a_tail_that_does_not_follow_the_segments_does_not_count(log: Path) -> None:
    (log / "tail-9.jsonl").write_bytes(tail(numbered(9, 12), "00" * 32))
    found = evidence(log)
    assert statuses(found)["tail-9.jsonl"] == "bad"
    assert [text for text in problems(found) if "tail" in text] == [
        f"tail-9.jsonl:1: follows a segment with the digest {'00' * 32}; before 9 stands another: {TWO_HISTORIES}"
    ]
    assert holes(found) == [(9, 12, f"{log}/tail-9.jsonl cannot be believed, and no other file holds them")]


def test_a_directory_without_a_log(tmp_path: Path) -> None:
    found = evidence(tmp_path)
    assert (found.files, found.logs, found.problems) == ((), (), (Problem(str(tmp_path), 0, NO_LOG),))


def test_logs_of_several_routers(log: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "other", OTHER, 2)
    found = evidence(log, other)
    assert [(one.router, one.segments, one.whole) for one in found.logs] == sorted(
        [(ROUTER, 4, True), (STRANGER, 2, True)]
    )


def test_a_log_without_a_signed_file_is_told_by_the_path_of_its_first(tmp_path: Path) -> None:
    (tmp_path / "tail-1.jsonl").write_bytes(tail(numbered(1, 3)))
    assert [one.place for one in evidence(tmp_path).logs] == [f"{tmp_path}/tail-1.jsonl"]


# -- two histories ----------------------------------------------------------------------------------------


def test_two_nodes_with_one_key(log: Path, tmp_path: Path) -> None:
    """A copy of the log was continued elsewhere from event 5, so nothing counts from there."""
    other = write_log(tmp_path / "other", segments=2)
    write_log(other, segments=3, at_ns=77, after=decode_line(last_line(other / TWO))["sha256"], first=5)
    (other / "tail-11.jsonl").write_bytes(tail(numbered(11, 12)))
    found = evidence(log, other)
    assert [file.status for file in found.files] == ["good", "good", "fork", "fork", "copy", "copy", *["fork"] * 4]
    assert holes(found) == [(5, 12, "from 5 on the files tell two histories, and none counts")]
    told = {(problem.path, problem.text.partition(" otherwise")[0]) for problem in found.problems}
    assert told == {
        (f"{log}/{THREE}", f"holds the events 5 to 6, which {other}/{THREE} holds"),
        (f"{other}/{THREE}", f"holds the events 5 to 6, which {log}/{THREE} holds"),
    }
    assert found.logs[0][1:6] == (2, 1, 4, False, 0)


# -- what lines say ---------------------------------------------------------------------------------------


def digest_of(log: Path, name: str) -> str:
    found: str = decode_line(last_line(log / name))["sha256"]
    return found


def test_a_gap_that_the_log_records_is_a_hole(log: Path) -> None:
    found = witnessed(evidence(log), [Gap(ROUTER, 3, 2), Gap(ROUTER, 3, 2)], [])
    assert holes(found) == [(3, 4, "its router found them missing when it sealed its log, and wrote down so")]
    assert not found.logs[0].whole


def test_a_witness_vouches_for_what_it_saw(log: Path) -> None:
    before = evidence(log)
    found = witnessed(before, [], [Witness(STRANGER, ROUTER, 4, digest_of(log, TWO))])
    assert (found.holes, found.problems, found.logs[0].whole) == ((), (), True)
    alone = "none of those given knows how far this log reached"
    assert (any(alone in text for text in before.limits), any(alone in text for text in found.limits)) == (True, False)
    text = f"Neighbours vouch for the log of {ROUTER} up to event 4; it ends at 8, and whether more was cut off"
    assert any(one.startswith(text) for one in found.limits)


def test_a_tail_that_was_cut_off_shows_only_to_a_witness(log: Path) -> None:
    seen = Witness(STRANGER, ROUTER, 8, digest_of(log, FOUR))
    (log / FOUR).unlink()
    assert evidence(log).holes == ()
    found = witnessed(evidence(log), [], [seen, Witness(STRANGER, ROUTER, 6, digest_of(log, THREE))])
    assert found.holes == (
        Hole(ROUTER, 7, 8, f"the neighbour {STRANGER} was told that this log reaches to 8: its end was cut off, or is"
             " not among the files, or that neighbour signed what is not true, or its store was deleted and its log"
             " began anew at event 1"),
    )  # fmt: skip
    assert not found.logs[0].whole
    both = [seen._replace(seq=5), seen._replace(router="ab" * 32, seq=7)]
    [hole] = witnessed(evidence(log), [], both).holes
    assert "is not true" not in hole.why and "(by its event 5)" in hole.why


@pytest.mark.parametrize("seq", [4, 3])
def test_two_witnesses_of_another_head_tell_that_the_log_was_rewritten(log: Path, seq: int) -> None:
    """At 4 a segment ends with another digest; at 3 no segment ends."""
    agreed = Witness(STRANGER, ROUTER, 2, digest_of(log, ONE))
    found = witnessed(evidence(log), [], [*of_two(seq), agreed])
    assert {hole[:2] for hole in holes(found)} == {(3, seq)}
    for (_, _, why), witness in zip(sorted(holes(found)), ("ab" * 32, STRANGER), strict=True):
        assert why.endswith(REWRITTEN) and witness in why
    assert [(Path(path).name, line) for path, line, _ in found.problems] == [(TWO, 0)] * 2


def of_two(seq: int) -> list[Witness]:
    """Two neighbours that saw a log end there as none given does."""
    return [Witness(who, ROUTER, seq, "77" * 32) for who in (STRANGER, "ab" * 32)]


@pytest.mark.parametrize("seq", [4, 3])
def test_what_a_single_witness_contradicts_counts_and_is_told(log: Path, seq: int) -> None:
    said = [Witness(STRANGER, ROUTER, seq, "77" * 32, 5, line) for line in (8, 9)]
    found = witnessed(evidence(log), [], said)
    assert (found.holes, found.logs[0].whole) == ((), True)
    assert all(one.text.endswith(DISPUTED) for one in found.problems) and len(found.problems) == 2
    assert f"the neighbour {STRANGER} (by its event 8) was told that it ends at {seq}" in found.problems[0].text
    assert limit(found, "none of those given knows how far this log reached")
    vouching = Witness("ab" * 32, ROUTER, 8, digest_of(log, FOUR))
    assert limit(witnessed(evidence(log), [], [*said, vouching]), f"Neighbours vouch for the log of {ROUTER} up to")


def test_a_single_witness_is_believed_where_the_files_contradict_each_other(log: Path) -> None:
    sound = evidence(log)
    forked = replace(sound, files=(*sound.files, sound.files[0]._replace(status="fork")))
    found = witnessed(forked, [], [Witness(STRANGER, ROUTER, 4, "77" * 32)])
    assert any(why.endswith(REWRITTEN) for _, _, why in holes(found)) and not found.logs[0].whole


def limit(found: Evidence, text: str) -> bool:
    return any(text in one for one in found.limits)


def test_a_witness_of_another_history_is_not_said_to_be_missing(log: Path) -> None:
    for seq in (4, 99):
        found = witnessed(evidence(log), [], of_two(seq))
        assert not limit(found, "none of those given knows how far")
        assert limit(found, f"What neighbours saw of the log of {ROUTER} is not what was given (see its holes): nobody")
        agreed = Witness(STRANGER, ROUTER, 2, digest_of(log, ONE))
        found = witnessed(evidence(log), [], [*of_two(seq), agreed])
        assert limit(found, f"log of {ROUTER} up to event 2; what they saw besides is not in it (see its holes).")


def test_a_witness_of_what_is_no_longer_kept_is_not_said_to_be_missing(log: Path) -> None:
    folded = encode_lines(fold([as_line(last_line(log / name)) for name in (ONE, TWO, THREE)], KEY))
    prune(log, ONE, TWO, THREE)
    (log / "pruned.jsonl").write_bytes(folded)
    found = witnessed(evidence(log), [], [Witness(STRANGER, ROUTER, 4, "77" * 32)])
    assert not limit(found, "none of those given knows how far")
    assert limit(found, f"A neighbour saw the log of {ROUTER} reach to event 4, and what is left of it does not show")


def test_what_a_folded_footer_hides_is_not_called_rewritten(log: Path) -> None:
    folded = encode_lines(fold([as_line(last_line(log / name)) for name in (ONE, TWO, THREE)], KEY))
    seen = [Witness(STRANGER, ROUTER, 4, digest_of(log, TWO)), Witness(STRANGER, ROUTER, 6, digest_of(log, THREE))]
    prune(log, ONE, TWO, THREE)
    (log / "pruned.jsonl").write_bytes(folded)
    assert witnessed(evidence(log), [], seen).holes == ()
    found = witnessed(evidence(log), [], of_two(6))
    assert {(hole.first_seq, hole.last_seq) for hole in found.holes} == {(1, 6)}


def test_who_is_no_witness(log: Path) -> None:
    """These do not count: a router's word about itself, a neighbour that has heard nothing yet, and a witness of a
    router whose log is not given."""
    others = [Witness(ROUTER, ROUTER, 99, "00" * 32), Witness(STRANGER, ROUTER, 0, "00" * 32),
              Witness(ROUTER, STRANGER, 5, "00" * 32)]  # fmt: skip
    found = witnessed(evidence(log), [], others)
    assert (found.holes, found.problems) == ((), ())
    assert f"Of these routers, neighbours of the others, no log was given: {STRANGER}." in found.limits


def test_any_order_of_witnesses_gives_the_same_evidence(log: Path) -> None:
    seen = [Witness(who, ROUTER, seq, digest) for who in (STRANGER, "ab" * 32) for seq in (2, 3, 4, 9, 11)
            for digest in (digest_of(log, ONE), digest_of(log, TWO))]  # fmt: skip
    gaps = [Gap(ROUTER, 7, 1), Gap(ROUTER, 2, 1)]
    found = witnessed(evidence(log), gaps, seen)
    assert found == witnessed(evidence(log), gaps[::-1], seen[::-1])
    assert found.holes[-1][1:3] == (9, 11)


def test_whose_events_a_file_held_may_not_be_knowable(tmp_path: Path) -> None:
    (tmp_path / TWO).write_bytes(b"")
    found = evidence(tmp_path)
    assert (found.logs, found.holes) == ((), ())
    assert found.limits[-1] == f"Whose events these files held is not knowable: {tmp_path}/{TWO}."


def sealed_facts(key: SigningKey, seq: int, after: str | None) -> FileFacts:
    """Return the facts of a segment with one event, whose digest is made up."""
    digest, router = sha256(b"%d" % seq).hexdigest(), key.public.hex()
    line = Line(1, "delivered", seq, 1, 5, 6, router, "00" * 16)
    foot = Line(
        1, "seal", router=router, n=1, first_seq=seq, last_seq=seq, segments=1, lines=1, counts={"delivered": 1},
        min_t=5, max_t=5, predecessor=after, sha256=digest,
    )  # fmt: skip
    first, last = encode_lines([header(line, after)]), encode_lines([sign(foot, key)])
    return FileFacts(f"logs/{router}/{file_name(seq)}", 1 << 23, first, last, digest)


ROUTERS, SEGMENTS = 4, 25


def steps_of(segments: int) -> int:
    """Return how many lines of Python run to judge a fleet of routers with so many segments, each seen by four
    neighbours."""
    found: list[FileFacts] = []
    keys = [SigningKey(bytes([number]) * 32) for number in range(ROUTERS)]
    for key in keys:
        for seq in range(1, segments + 1):
            found.append(sealed_facts(key, seq, found[-1].digest if seq > 1 else None))
    digests = [one.digest for one in found[:segments]]
    seen = [Witness(f"{who:064x}", key.public.hex(), seq, digest)
            for who in range(4) for key in keys for seq, digest in enumerate(digests, 1)]  # fmt: skip
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        whole = witnessed(judge(found, lambda path: pytest.fail(path), verify=verify), [], seen)
    finally:
        sys.settrace(before)
    assert len(whole.logs) == ROUTERS and all(log[1:6] == (segments, 1, segments, True, 0) for log in whole.logs)
    return steps


def test_four_times_as_many_segments_are_judged_in_about_four_times_as_many_steps() -> None:
    assert steps_of(4 * SEGMENTS) <= 5 * steps_of(SEGMENTS)


@pytest.mark.parametrize("name", ["events-9999999999999999.jsonl", "tail-9999999999999999.jsonl"])
@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n", b"{}\n"])
def test_file_under_a_name_that_no_log_reaches_is_left_out(log: Path, name: str, data: bytes) -> None:
    (log / name).write_bytes(data)
    found = evidence(log)
    assert (found.holes, found.logs[0].last, found.logs[0].whole) == ((), 8, True)
    assert statuses(found)[name] == "foreign" and f"{name}: {UNREACHABLE}" in problems(found)


def test_name_that_no_log_reaches_adds_nothing_to_what_a_file_claims(log: Path) -> None:
    """Half a segment that was saved under another name."""
    data = (log / FOUR).read_bytes()
    (log / FOUR).unlink()
    (log / "events-9999999999999999.jsonl").write_bytes(data[: len(data) // 2])
    found = evidence(log)
    assert [hole[:2] for hole in holes(found)] == [(7, 7)]
    assert statuses(found)["events-9999999999999999.jsonl"] == "bad"
