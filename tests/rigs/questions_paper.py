"""The paper on `router ask`: a section for each question, with its answer about a small fleet.

    PYTHONPATH=tests python -m rigs.questions_paper

writes the sections of docs/questions.md again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from fleets.shared import Fleets

from router.audit import engine
from router.audit.ask.answer import SqlAnswer, answer
from router.audit.ask.answer_table import lines_of
from router.audit.ask.catalogue import all_questions
from router.audit.ask.question import AuditQuestion
from router.audit.listing import list_logs

PAPER = Path(__file__).parents[2] / "docs/questions.md"
MARK = "<!-- generated: questions -->\n"
FLEET = 4, 400, 0
"""Nodes, messages and seed of a fleet that other tests read, too."""
ROWS = 4
NOTHING = "(no rows)"


def audited(fleets: Fleets, out: Path) -> Path:
    """Write an audit of the fleet to `out`; return the directory of its logs."""
    logs = fleets(*FLEET)
    truth = json.loads((logs / "truth.json").read_text())
    engine.audit(list_logs([logs]), engine.AuditSpan(truth["as_of_ns"]), out=out)
    return logs


def given(question: AuditQuestion, out: Path) -> dict[str, str]:
    """Return parameters with which the question has an answer: the newest message that is incomplete."""
    needed = [one.name for one in question.parameters if one.default is None]
    assert needed in ([], ["id"]), f"{question.name}: add a value for its parameters here"
    incomplete = all_questions()["incomplete messages"]
    first = answer(out, incomplete.filled({"limit": "1"}), incomplete.tables).rows[0] if needed else ("",)
    return {"limit": str(ROWS)} | dict.fromkeys(needed, first[0][:16])


def asked(question: AuditQuestion, out: Path) -> SqlAnswer:
    return answer(out, question.filled(given(question, out)), question.tables)


def section(question: AuditQuestion, found: SqlAnswer) -> str:
    """Return the part of the paper about a question."""
    parameters = [
        f"- `{one.name}`: {one.about}" + (f" (default {one.default})" if one.default else " (needed)")
        for one in question.parameters
    ]
    lines = lines_of(found, {}) if found.rows else [NOTHING]
    return "\n".join([f"### {question.name}", "", question.asks, "", *parameters, "", "```text", *lines, "```", ""])


def sections(text: str) -> Mapping[str, str]:
    """Return the parts of the paper by the name of their question."""
    parts = re.split(r"^(?=### )", text.partition(MARK)[2], flags=re.MULTILINE)
    return {part.partition("\n")[0].removeprefix("### "): part.rstrip() for part in parts if part.strip()}


def write() -> None:
    before = PAPER.read_text().partition(MARK)[0]
    with TemporaryDirectory() as directory:
        audited(Fleets(Path(directory) / "fleets"), out := Path(directory) / "out")
        parts = [section(one, asked(one, out)) for one in all_questions().values()]
        PAPER.write_text(before + MARK + "\n" + "\n".join(parts))


if __name__ == "__main__":
    write()
