"""`router ask`: ask the tables of an audit a question by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import emphasised, note, say, say_json
from router.core.wire.text import quoted

if TYPE_CHECKING:
    from router.audit.ask.answer import SqlAnswer
    from router.audit.ask.question import AuditQuestion


@click.command(cls=Command)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.argument("question", required=False, metavar="[QUESTION]")
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]…")
@click.option("--sql", "only_sql", is_flag=True, help="Print the SQL of the question instead of its answer.")
@json_option
def ask(out: Path, question: str | None, parameters: tuple[str, ...], only_sql: bool, as_json: bool) -> None:
    """Answer a question about an audit's tables.

    OUT is the directory that `router audit LOGS --out OUT` wrote. Without a QUESTION, list all questions. A question
    may take parameters, such as limit=50. --json prints its name, its SQL, and the rows with whole keys, nanoseconds
    and hours or minutes since 1970.
    """
    from router.audit.ask.answer import NoAnswer, answer, check_output
    from router.audit.ask.catalogue import all_questions
    from router.audit.ask.question import QuestionError, choose_question
    from router.audit.database import AuditFailed

    try:
        check_output(out)
        if question is None:
            _list_questions(all_questions(), as_json=as_json)
            return
        chosen = choose_question(all_questions(), question)
        given = _given(parameters)
        sql = chosen.filled(given)
        if only_sql and not as_json:
            say(sql)
            return
        found = answer(out, sql, chosen.tables)
    except QuestionError as error:
        raise click.UsageError(str(error)) from None
    except (NoAnswer, AuditFailed) as error:
        raise Failure(Exit.FAILED, str(error)) from None
    if as_json:
        say_json({"question": chosen.name, "sql": sql, "rows": found.dicts()})
        return
    _show_answer(chosen, given, found)


def _show_answer(question: AuditQuestion, given: Mapping[str, str], found: SqlAnswer) -> None:
    from router.audit.ask.answer_table import lines_of

    if not found.rows:
        note(f'"{question.name}" has no rows: nothing in this audit is of that kind and fits the parameters')
        return
    for at, line in enumerate(lines_of(found, _names())):
        say(line if at else emphasised(line))
    most = next((given.get(one.name, one.default) for one in question.parameters if one.name == "limit"), None)
    if most is not None and len(found.rows) == int(most):
        note(f"there may be more rows than these {most}: raise the parameter limit")


def _given(parameters: tuple[str, ...]) -> dict[str, str]:
    """Return the parameters by name; raise `QuestionError` for one that has no `=` or is given twice."""
    from router.audit.ask.question import QuestionError

    found = dict[str, str]()
    for one in parameters:
        name, is_given, value = one.partition("=")
        if not is_given:
            raise QuestionError(f"{quoted(one)} is no parameter: write NAME=VALUE, and several words in quotes")
        if name in found:
            raise QuestionError(f"{name} is given twice: give it once")
        found[name] = value
    return found


def _list_questions(questions: Mapping[str, AuditQuestion], *, as_json: bool) -> None:
    if as_json:
        say_json(
            [
                {
                    "question": one.name,
                    "asks": one.asks,
                    "parameters": [
                        {"name": each.name, "kind": each.kind, "default": each.default, "about": each.about}
                        for each in one.parameters
                    ],
                    "tables": one.tables,
                }
                for one in questions.values()
            ]
        )
        return
    for one in questions.values():
        say(emphasised(one.usage))
        say(f"  {one.asks}")


def _names() -> Mapping[str, str]:
    """Return the names of keys in this home, if it holds a node."""
    from router.audit.command import own_home
    from router.audit.key_names import key_names

    home = own_home()
    return key_names([home]) if home else {}
