"""Chains, forks, witnesses, tails and footers are the same in an export; files that do not fit are named."""

from __future__ import annotations

import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from samples.audit_logs import A, B, Log, audited, name
from samples.logs import KEY, OTHER, seal_each
from samples.segments import footer, numbered, prune, sealed, tail, write_log

from router.audit.engine import evidence_of
from router.audit.export.lines import ExportError
from router.audit.export.logs import Exported, export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from router.core.log.line import decode_line, encode_lines
from router.core.log.segment import header, sign
from spark_analytics.judgement.evidence import DISPUTED, Evidence

NAMES = Pseudonyms(bytes(range(32)))
FIRST, SECOND, THIRD, FOURTH = (f"events-{seq:016d}.jsonl" for seq in (1, 3, 5, 7))


def exported(*paths: Path, out: Path) -> Exported:
    return export(*evidence_of(list_logs(paths)), out, lambda: NAMES)


def found(path: Path) -> Evidence:
    return evidence_of(list_logs([path]))[0]


def both(logs: Path, out: Path) -> tuple[Evidence, Evidence]:
    """Return the judgement of the logs, and that of their export."""
    exported(logs, out=out)
    return found(logs), found(out)


def statuses(evidence: Evidence) -> Counter[str]:
    return Counter(file.status for file in evidence.files)


def spans(evidence: Evidence) -> list[tuple[int, int]]:
    return [(hole.first_seq, hole.last_seq) for hole in evidence.holes]


# -- segments that are kept and pruned --------------------------------------------------------------------------------


def test_a_copy_that_keeps_what_its_source_pruned_is_no_fork(tmp_path: Path) -> None:
    """Treat a copy made by `rsync -a` as no fork: it keeps segments that are pruned at the source, beside their
    footers."""
    source, copy = tmp_path / "source", tmp_path / "copy" / "log"
    segments = seal_each(source, 1, 2, 3, 4)
    shutil.copytree(source, copy)
    assert segments.prune(3.5, 1.0, 1 << 30) == 2
    shutil.copytree(source, copy, dirs_exist_ok=True)
    before, after = both(copy, tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "pruned": 1}
    assert before.problems == after.problems == ()
    assert [log.whole for log in after.logs] == [True]


def test_two_copies_of_different_age_are_no_fork(tmp_path: Path) -> None:
    for age in ("old", "new"):
        write_log(tmp_path / age)
    prune(tmp_path / "new", FIRST, SECOND)
    exported(tmp_path / "old", tmp_path / "new", out=tmp_path / "out")
    after = found(tmp_path / "out")
    assert statuses(after) == {"good": 4, "pruned": 1} and after.problems == () and after.holes == ()


def test_a_fork_of_what_was_pruned_and_what_is_kept_stays_one(tmp_path: Path) -> None:
    write_log(tmp_path / "logs")
    prune(tmp_path / "logs", FIRST)
    (tmp_path / "logs" / FIRST).write_bytes(sealed(numbered(1, 2, 77)))
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"fork": 4, "pruned": 1}
    assert spans(before) == spans(after) == [(1, 8)]


def test_of_two_routers_footers_in_one_file_each_gets_its_own(tmp_path: Path) -> None:
    lines = [footer(numbered(1, 2, key=KEY), key=KEY), footer(numbered(1, 4, key=OTHER), key=OTHER)]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "pruned.jsonl").write_bytes(encode_lines(lines))
    _, after = both(tmp_path / "logs", tmp_path / "out")
    ends = {(seal.router, seal.last_seq) for seal in after.seals}
    assert ends == {(NAMES.key(KEY.public.hex()), 2), (NAMES.key(OTHER.public.hex()), 4)}


def test_one_bad_line_among_footers_takes_none_of_the_others(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    prune(log, FIRST, SECOND)
    with (log / "pruned.jsonl").open("ab") as file:
        file.write(b'{"v":1,"event":"seal"}\n')
    before, after = both(log, tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 2, "bad": 1}
    assert before.holes == after.holes == () and after.logs[0].pruned_to == 4


def test_a_torn_footer_does_not_count(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    prune(log, FIRST, SECOND)
    path = log / "pruned.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    before, after = both(log, tmp_path / "out")
    assert spans(before) == spans(after) == [(3, 4)]


def test_an_empty_list_of_pruned_segments_is_nothing_to_leave_out(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    (log / "pruned.jsonl").touch()
    assert exported(log, out=tmp_path / "out").left_out == 0


# -- stand-ins --------------------------------------------------------------------------------------------------------


def test_a_bad_file_beside_a_good_one_stays_both(tmp_path: Path) -> None:
    spoilt = (write_log(tmp_path / "logs") / SECOND).read_bytes().replace(b'"t":5', b'"t":6')
    for place in ("a", "b"):
        (tmp_path / "logs" / place).mkdir()
        (tmp_path / "logs" / place / SECOND).write_bytes(spoilt)
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "bad": 2}
    assert before.holes == after.holes == ()


def test_a_file_of_nobody_knows_whom_is_one_here_too(tmp_path: Path) -> None:
    write_log(tmp_path / "logs")
    for number, data in enumerate((b"rubbish\n", b"")):
        (tmp_path / "logs" / f"odd{number}").mkdir()
        (tmp_path / "logs" / f"odd{number}" / THIRD).write_bytes(data)
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "bad": 2}
    assert [[file.router for file in one.files].count(None) for one in (before, after)] == [2, 2]


def test_a_newer_version_stays_foreign(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    (log / FOURTH).write_bytes((log / FOURTH).read_bytes().replace(b'"v":1', b'"v":2'))
    before, after = both(log, tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 3, "foreign": 1}
    assert spans(before) == spans(after) == [(7, 8)]


def test_a_file_that_no_log_reaches_is_left_out_there_as_here(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    (log / "events-9999999999999999.jsonl").write_bytes(b"junk")
    before, after = both(log, tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "foreign": 1}
    assert before.holes == after.holes == ()


# -- witnesses --------------------------------------------------------------------------------------------------------


def witnessing(tmp_path: Path, at: float) -> tuple[Path, Path]:
    """Return B's log of two segments, and A's, which states where B's log ended, and what A's own end was."""
    here, there = Log(A), Log(B)
    there.accepted(1, range(3), at=0)
    there.outward("delivered", [(1, 2)], at=1)
    there.state("stop", at=2)
    log = there.write(tmp_path / "logs" / "b", cuts=[1])
    seals = [decode_line(path.read_bytes().splitlines()[-1]) for path in sorted(log.iterdir())]
    for one in seals:
        here.state("link", at=at, peer=name(B), head_seq=one.last_seq, head_digest=one.sha256 or "")
    return here.write(tmp_path / "logs" / "a"), log


def limits(summary: dict[str, Any]) -> str:
    return "\n".join(summary["limits"])


def test_a_neighbour_vouches_in_an_export_too(tmp_path: Path) -> None:
    witnessing(tmp_path, at=3)
    exported(tmp_path / "logs", out=tmp_path / "out")
    for path, whose in ((tmp_path / "logs", name(B)), (tmp_path / "out", NAMES.key(name(B)))):
        assert f"Neighbours vouch for the log of {whose} up to event 5" in limits(audited(path))


def test_a_neighbour_vouches_for_what_was_pruned(tmp_path: Path) -> None:
    _, log = witnessing(tmp_path, at=3)
    first, second = sorted(path.name for path in log.iterdir())
    prune(log, first, second)
    exported(tmp_path / "logs", out=tmp_path / "out")
    assert f"vouch for the log of {NAMES.key(name(B))} up to event 5" in limits(audited(tmp_path / "out"))


def test_a_witness_by_a_clock_that_is_late_says_nothing_wrong(tmp_path: Path) -> None:
    witnessing(tmp_path, at=-100)
    exported(tmp_path / "logs", out=tmp_path / "out")
    after = audited(tmp_path / "out")
    assert after["holes"] == after["problems"] == [] and "vouch for" not in limits(after)


@pytest.mark.parametrize("how", ["cut off", "rewritten"])
def test_what_a_neighbour_contradicts_is_contradicted_in_an_export(how: str, tmp_path: Path) -> None:
    _, log = witnessing(tmp_path, at=3)
    last = sorted(log.iterdir())[-1]
    if how == "cut off":
        last.unlink()
    else:
        other = Log(B)
        other.accepted(1, range(3), at=0)
        other.outward("delivered", [(1, 1)], at=1)
        other.state("stop", at=2)
        other.write(log, cuts=[1])
    exported(tmp_path / "logs", out=tmp_path / "out")
    before, after = audited(tmp_path / "logs"), audited(tmp_path / "out")
    assert before["unknown"] == after["unknown"]
    assert before["verdict"] == after["verdict"]
    if how == "rewritten":  # as a single neighbour says
        assert all(len(one["problems"]) == 1 and DISPUTED in one["problems"][0] for one in (before, after))
        assert before["holes"] == after["holes"] == []
        return
    [hole] = after["holes"]
    assert how in hole["why"] and after["unknown"] > 0
    assert [(hole["first_seq"], hole["last_seq"])] == [(one["first_seq"], one["last_seq"]) for one in before["holes"]]


def test_logs_exported_apart_accuse_nobody(tmp_path: Path) -> None:
    a, b = witnessing(tmp_path, at=3)
    exported(a, out=tmp_path / "outs" / "a")
    exported(b, out=tmp_path / "outs" / "b")
    after = audited(tmp_path / "outs")
    assert after["holes"] == after["problems"] == []


# -- tails ------------------------------------------------------------------------------------------------------------


def test_a_tail_follows_its_segments(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    last = decode_line((log / FOURTH).read_bytes().splitlines()[-1]).sha256
    (log / "tail-0000000000000009.jsonl").write_bytes(tail(numbered(9, 12), last))
    before, after = both(log, tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "tail": 1}
    assert (after.problems, after.holes, after.logs[0].last) == ((), (), 12)


def test_tails_of_one_name_get_a_place_each(tmp_path: Path) -> None:
    write_log(tmp_path / "logs")
    for place, last in (("a", 10), ("b", 12)):
        (tmp_path / "logs" / place).mkdir()
        (tmp_path / "logs" / place / "tail-0000000000000009.jsonl").write_bytes(tail(numbered(9, last)))
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "tail": 2}
    assert after.problems == () and after.logs[0].last == 12


def test_tails_that_contradict_each_other_do_so_in_an_export(tmp_path: Path) -> None:
    write_log(tmp_path / "logs")
    for place, at_ns in (("a", 5), ("b", 6)):
        (tmp_path / "logs" / place).mkdir()
        (tmp_path / "logs" / place / "tail-0000000000000009.jsonl").write_bytes(tail(numbered(9, 10, at_ns)))
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "fork": 2}
    assert spans(before) == spans(after) == [(9, 10)]


# -- files that do not fit --------------------------------------------------------------------------------------------


def signed(lines: bytes) -> bytes:
    """Return these lines as a segment whose footer counts two events and has the right digest."""
    rows = numbered(1, 2)
    data = encode_lines([header(rows[0], None)]) + lines
    return data + encode_lines([sign(replace(footer(rows), sha256=sha256(data).hexdigest()), KEY)])


@pytest.mark.parametrize(
    "columns", [{"recipients": '["bob"]'}, {"ids": '"abc"'}, {"attempt": '"three"'}, {"recipient": f'"{"Z" * 64}"'}]
)
def test_a_signed_line_that_is_none_leaves_its_file_out(columns: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "logs" / "log").mkdir(parents=True)
    (tmp_path / "logs" / "whole").mkdir()
    write_log(tmp_path / "logs" / "whole")
    path = tmp_path / "logs" / "log" / FIRST
    first, second = numbered(1, 2)
    given = ",".join(f'"{column}":{value}' for column, value in columns.items()).encode()
    odd = encode_lines([second]).replace(b'"attempt":1', given)
    path.write_bytes(signed(encode_lines([first]) + odd))
    before, after = both(tmp_path / "logs", tmp_path / "out")
    assert statuses(before) == statuses(after) == {"good": 4, "bad": 1}
    assert (str(path), 3) == min((one.path, one.line) for one in before.problems)


@pytest.mark.parametrize("data", [b"", sealed(numbered(1, 2, 99)), sealed(numbered(1, 3)), tail(numbered(1, 2))[:-9]])
@pytest.mark.parametrize("name", [FIRST, "tail-0000000000000001.jsonl"])
def test_what_changes_after_it_was_judged_is_not_signed(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    path = tmp_path / "log" / name
    path.write_bytes(tail(numbered(1, 5)) if name.startswith("tail") else sealed(numbered(1, 2)))
    judged = evidence_of(list_logs([tmp_path / "log"]))
    path.write_bytes(data)
    with pytest.raises(ExportError) as caught:
        export(*judged, tmp_path / "out", lambda: NAMES)
    assert str(path) in str(caught.value) and "run it again" in str(caught.value)


def test_what_its_footer_contradicts_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / FIRST).write_bytes(signed(encode_lines([*numbered(1, 1), *numbered(7, 9)])))
    done = exported(tmp_path / "log", out=tmp_path / "out")
    assert (done.segments, done.events, done.left_out) == (0, 0, 1)
    assert statuses(found(tmp_path / "out")) == {"bad": 1}
