"""The answers of `router ask` about a fleet's audit: they agree with the truth, fit a terminal, stand in the paper."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from fleets.shared import Fleets
from rigs.questions_paper import NOTHING, PAPER, asked, audited, section, sections

from router.audit.ask.answer import NoAnswer, SqlAnswer, answer, check_output
from router.audit.ask.answer_table import WIDTH, lines_of, table_of
from router.audit.ask.catalogue import all_questions
from router.cli import main
from spark_analytics.judgement.latency import percentile
from spark_analytics.report.finding import LEVELS


@pytest.fixture(scope="module")
def logs(fleets: Fleets, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the logs of the fleet, and the directory of their audit."""
    out = tmp_path_factory.mktemp("ask") / "out"
    return audited(fleets, out), out


@pytest.fixture
def out(logs: tuple[Path, Path]) -> Path:
    return logs[1]


@pytest.fixture
def truth(logs: tuple[Path, Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((logs[0] / "truth.json").read_text())
    return found


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    question = all_questions()[name]
    return answer(out, question.filled({"limit": "1000000"}), question.tables).dicts()


def heads_of(found: SqlAnswer) -> list[str]:
    return table_of(found, {})[0]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["ask", *map(str, arguments)], env={"ROUTER_HOME": "/nonexistent"})


def test_answers_add_up_to_the_truth(out: Path, truth: dict[str, Any]) -> None:
    by_router, by_hop = rows(out, "completeness by router"), rows(out, "completeness by hop")
    by_hour, ended = rows(out, "completeness by hour"), rows(out, "ends without arrival")
    for found in (by_router, by_hop, by_hour):
        assert [sum(row[name] for row in found) for name in ("owed", "pending", "lost")] == [
            truth[name] for name in ("owed", "pending", "unaccounted")
        ]
    for state in ("expired", "refused", "dropped", "evicted", "unconfirmed"):
        assert sum(row[state] for row in ended) == truth[state]
    assert sum(row["deferred"] for row in rows(out, "waste of copies")) == truth["deferred"]
    assert sum(row["delivered"] for row in rows(out, "hot readers")) == truth["delivered"]
    assert len(rows(out, "incomplete messages")) > 0
    assert rows(out, "lost messages") == [] == rows(out, "claims")


def test_findings_are_those_of_the_summary_of_that_level_and_worse(out: Path) -> None:
    told = json.loads((out / "summary.json").read_text())["findings"]
    question = all_questions()["findings"]
    for at, level in enumerate(LEVELS[:3]):
        found = answer(out, question.filled({"limit": "1000", "level": level}), question.tables).dicts()
        levels = {*LEVELS[: at + 1]}
        expected = {row["text"] for row in told if row["level"] in levels and "The same in" not in row["text"]}
        assert expected <= {row["text"] for row in found} and {row["level"] for row in found} <= levels
    assert {row["level"] for row in found} >= {"warning", "info"}


def test_percentiles_are_those_of_the_summary_for_each_recipient(out: Path) -> None:
    counts: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    greatest: Counter[tuple[str, str]] = Counter()
    table = str(out / "hop_latency.parquet")
    sql = "SELECT router, recipient, bucket, count, max_ns FROM read_parquet(?) WHERE event = 'acked'"
    for router, recipient, bucket, count, max_ns in duckdb.execute(sql, [table]).fetchall():
        counts[router, recipient][bucket] += count
        greatest[router, recipient] = max(greatest[router, recipient], max_ns)
    found = {
        (row["router"], row["neighbour"]): (row["messages"], row["p50_ns"], row["p99_ns"], row["max_ns"])
        for row in rows(out, "latency by hop")
    }
    assert found == {
        hop: (one.total(), percentile(one, 50, greatest[hop]), percentile(one, 99, greatest[hop]), greatest[hop])
        for hop, one in counts.items()
    }


def test_links_that_are_up_are_those_whose_last_change_says_so(out: Path) -> None:
    last: dict[tuple[str, str], tuple[str, int]] = {}
    sql = "SELECT router, subject, event, t FROM read_parquet(?) WHERE event LIKE 'link%' AND subject IS NOT NULL"
    for router, subject, event, t in duckdb.execute(
        f"{sql} ORDER BY router, seq", [str(out / "route_change.parquet")]
    ).fetchall():
        last[router, subject] = event, t
    found = {(row["router"], row["neighbour"]): row["since_t"] for row in rows(out, "topology")}
    assert found == {link: t for link, (event, t) in last.items() if event == "link_up"} and found


@pytest.mark.parametrize("name", all_questions())
def test_every_answer_fits_a_terminal_and_stands_in_the_paper(name: str, out: Path) -> None:
    """The paper has the heads that the answer has; its figures follow from the fleet, and are not compared."""
    question = all_questions()[name]
    found = asked(question, out)
    lines = lines_of(found, {})
    assert max(map(len, lines)) <= WIDTH
    assert len(set(heads_of(found))) == len(found.columns), "two columns have one head"
    told = sections(PAPER.read_text()).get(name, "")
    before, made = (part.partition("```text\n")[0] for part in (told, section(question, found)))
    assert before == made, "run: PYTHONPATH=tests python -m rigs.questions_paper"
    heads = told.partition("```text\n")[2].splitlines()[0]
    assert heads == NOTHING or heads.split() == lines[0].split()


def test_the_paper_has_no_other_questions() -> None:
    assert list(sections(PAPER.read_text())) == list(all_questions())


def test_cells_say_what_a_value_is_in_few_characters() -> None:
    key = "ab" * 32
    columns = ("router", "neighbour", "id", "hour", "minute", "t", "since_t", "wait_ns", "up_percent", "note", "count")
    values = (key, "cd" * 32, key, 483336, 29000171, 10**18 + 5, None, 1_500_000, 99.5, "x\x1b[1m", 7)
    heads, row = lines_of(SqlAnswer(columns[2:], (values[2:],)), {})
    assert "time" in heads and "since" in heads and "wait" in heads and "up" in heads
    assert "2025-02-20 00:00" in row and "1.50 ms" in row and "99.50%" in row and "\x1b" not in row
    named = lines_of(SqlAnswer(columns[:2], (values[:2],)), {key: "core"})[1].split()
    assert named[0] == "core" and named[1].startswith("addr1")


def test_a_key_is_spelled_in_a_text_as_in_its_column() -> None:
    key, message, named = "ab" * 32, "1d" * 32, "cd" * 32
    text = f"{key} {message} {named}"
    cell = table_of(SqlAnswer(("router", "text"), ((key, text),)), {named: "core"})[1][0]
    assert cell[0].startswith("addr1") and cell[1].startswith(f"{cell[0]} 1d1d")
    found = SqlAnswer(("router", "text"), ((key, f"{named} {key}"),))
    assert table_of(found, {named: "core"})[1][0][1] == f"core {cell[0]}"


def test_sentences_and_paths_stand_whole_below_their_row() -> None:
    """A word that is longer than a line, as a path may be, is not broken."""
    sentence, path = "The router has 3 units that no line of its log accounts for. " * 3, "/a dir/" + "deep/" * 20 + "x"
    columns, rows_of = ("level", "path", "count", "text"), (("bad", path, 7, sentence), ("info", "b", None, "c"))
    heads, *lines = lines_of(SqlAnswer(columns, rows_of), {})
    assert heads.split() == ["level", "count"] and lines[0].split() == ["bad", "7"]
    assert [line for line in lines if len(line) > WIDTH] == [f"  {path.partition(' ')[2]}"]
    below = [line.removeprefix("  ") for line in lines[1:-3]]
    assert " ".join(below) == f"{path} {sentence.strip()}" and lines[-2:] == ["  b", "  c"]


def test_the_command_lists_questions_and_answers_them(out: Path) -> None:
    listed = run(out)
    assert listed.exit_code == 0 and '"did everybody get it" id=ID' in listed.output
    assert [one["question"] for one in json.loads(run(out, "--json").output)] == list(all_questions())
    sql = run(out, "hot-groups", "limit=1", "--sql").output.strip()
    answered = json.loads(run(out, "hot groups", "limit=1", "--json").output)
    assert (answered["question"], answered["sql"]) == ("hot groups", sql)
    assert answered["rows"] == answer(out, sql, ("group_hour",)).dicts() and len(answered["rows"]) == 1
    shown = run(out, "hot groups", "limit=1")
    assert shown.stdout.splitlines()[1].startswith("group1") and "raise the parameter limit" in shown.stderr
    nothing = run(out, "lost messages")
    assert (nothing.exit_code, nothing.stdout) == (0, "") and "has no rows" in nothing.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("hot gruops",), 2, "did you mean hot groups"),
        (("did everybody get it",), 2, "needs id"),
        (("hot groups", "limit"), 2, "write NAME=VALUE"),
        (("hot groups", "limit=1", "limit=2"), 2, "give it once"),
        (("hot", "groups"), 2, "hot groups"),
    ],
)
def test_the_command_refuses_what_it_cannot_ask(out: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run(out, *arguments)
    assert done.exit_code == code and said in done.stderr.replace('"', "")


def test_what_is_no_audit_is_told_with_a_remedy(out: Path, tmp_path: Path) -> None:
    for path, said in ((tmp_path, "holds no audit"), (tmp_path / "x", "does not exist"), (PAPER, "is a file")):
        done = run(path, "claims")
        assert done.exit_code == 1 and said in done.stderr and "router audit LOGS --out" in done.stderr


@pytest.mark.parametrize("first", ["checkpoint", "state", ".lock"])
def test_a_stream_that_ended_no_batch_is_told_to_be_run_again(tmp_path: Path, first: str) -> None:
    (tmp_path / first).touch() if first == ".lock" else (tmp_path / first).mkdir()
    done = run(tmp_path, "claims")
    assert done.exit_code == 1 and "no batch of the stream" in done.stderr and "run it again" in done.stderr


def test_an_audit_of_another_version_is_told_with_a_remedy(out: Path, tmp_path: Path) -> None:
    old = shutil.copytree(out, tmp_path / "old")
    question = all_questions()["claims"]
    sql = question.filled({})
    again = f"run `router audit LOGS --out {old}` again"
    (old / "claims.parquet").write_bytes(b"rubbish")
    with pytest.raises(NoAnswer, match=r"the table claims in .* cannot be read") as spoilt:
        answer(old, sql, question.tables)
    shutil.copy(old / "custody.parquet", old / "claims.parquet")
    with pytest.raises(NoAnswer, match="another version of the audit wrote") as other:
        answer(old, sql, question.tables)
    (old / "claims.parquet").unlink()
    with pytest.raises(NoAnswer, match="lacks the table claims") as missing:
        answer(old, sql, question.tables)
    assert all(again in str(one.value) for one in (spoilt, other, missing))


def test_what_a_stream_does_not_keep_is_told_with_the_reason(out: Path, tmp_path: Path) -> None:
    of_stream = tmp_path / "out"
    for table in ("audit_run", "state"):
        (of_stream / table).mkdir(parents=True)
    shutil.copy(out / "audit_run.parquet", of_stream / "audit_run" / "part-0.zstd.parquet")
    refused = run(of_stream, "incomplete messages")
    assert refused.exit_code == 1 and "keeps no table message: it has a row for each message" in refused.stderr
    assert "ask there" in run(of_stream, "detours").stderr
    assert "it has had no batch yet" in run(of_stream, "hot groups").stderr


def test_floods_tell_what_the_claims_contradict(tmp_path: Path) -> None:
    """A flood that its sender's log contradicts stands beside one of which no claim tells."""
    here, there, other = ("ab" * 32, "cd" * 32, "ef" * 32)
    tables = {
        "audit_run": "SELECT 1 AS engine",
        "abuse_hour": f"""SELECT '{here}' AS router, unnest(['{there}', '{other}']) AS peer, NULL::VARCHAR AS prefix,
            'refused' AS event, 'bad-signature' AS reason, unnest([500, 7]) AS count, 1 AS hour""",
        "link_hour": f"SELECT '{other}' AS router, '{here}' AS neighbour, 9 AS sent",
        "claims": f"""SELECT unnest(['not-handed', 'left-out']) AS claim, '{here}' AS router, '{there}' AS peer,
            unnest([500, 2])::BIGINT AS count""",
    }
    for table, rows_of in tables.items():
        duckdb.execute(f"COPY ({rows_of}) TO '{tmp_path}/{table}.parquet' (FORMAT parquet)")
    found = [(row["sender"], row["messages"], row["handed"], row["not_handed"]) for row in rows(tmp_path, "floods")]
    assert found == [(there, 500, None, 500), (other, 7, 9, None)]


def test_a_stream_s_open_deliveries_count_and_paths_are_taken_literally(out: Path, tmp_path: Path) -> None:
    """Of rows that batches of a stream wrote again, the last count."""
    new = tmp_path / "a*[b]'c"
    for table in ("delivery/batch=9", "delivery/batch=10", "delivery_open", "audit_run"):
        (new / table).mkdir(parents=True)
        source = out / f"{table.partition('/')[0].removesuffix('_open')}.parquet"
        shutil.copy(source, new / table / "part-0.zstd.parquet")
    check_output(new)
    once, twice = rows(out, "completeness by hop"), rows(new, "completeness by hop")
    assert sum(row["owed"] for row in twice) == 2 * sum(row["owed"] for row in once)
