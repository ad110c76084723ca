"""The questions of `router ask`: each file in `questions/`, found by its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from router.audit.ask.question import AuditQuestion, parse_question

QUESTIONS = Path(__file__).parent / "questions"


@cache
def all_questions() -> dict[str, AuditQuestion]:
    """Return the questions by name, in alphabetical order; raise `ValueError` if a file is not of the form."""
    files = sorted(QUESTIONS.glob("*.sql"))
    names = [file.stem.replace("_", " ") for file in files]
    return {name: parse_question(name, file.read_text("utf-8")) for name, file in zip(names, files, strict=True)}
