"""Manual pages: one for each command, in the language of man(7), made from what `--help` says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from router.cli.command import Command
from router.cli.exits import Exit, Failure
from router.cli.output import note, say
from router.cli.version import DISTRIBUTION

SECTION = "1"
MODE = 0o644
_LEADING = re.compile(r"^(?=[.'])", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_ENVIRONMENT = [("ROUTER_HOME", "The node's directory, where --home does not name one.")]


@click.command(cls=Command)
@click.argument("command", nargs=-1)
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the pages of all commands into DIR/man1 instead, for `man`.",
)
def man(command: tuple[str, ...], folder: Path | None) -> None:
    """Show the manual page of COMMAND, such as `group new`; without it, that of the whole program.

    On a terminal the page is shown by the program man, otherwise it is printed as man(7) has it.

    \b
    router man group new
    router man --write ~/.local/share/man      # from then on: man router-group-new
    """
    called = click.get_current_context().find_root()
    root = click.Context(called.command, info_name="router")  # however the program was called
    root.meta.update(called.meta)
    if folder is not None:
        if command:
            raise click.UsageError("--write writes the pages of all commands: leave out the command's name, or --write")
        _write(folder / f"man{SECTION}", root)
        return
    page = page_text(_found(root, command))
    if sys.stdout is None or not sys.stdout.isatty():
        say(page.rstrip())
        return
    viewer = shutil.which("man")
    if viewer is None:
        words = " ".join(("router", *command))
        raise Failure(Exit.FAILED, f"the program man is not installed; `{words} --help` says the same")
    subprocess.run([viewer, "-l", "-"], input=page, text=True, encoding="utf-8", check=False)


def every_command(ctx: click.Context) -> Iterator[click.Context]:
    """Yield the context and those of all commands below it, without hidden ones, each before its own commands."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            found = ctx.command.get_command(ctx, name)
            if found is not None and not found.hidden:
                yield from every_command(click.Context(found, info_name=name, parent=ctx))


def page_name(ctx: click.Context) -> str:
    """Return the name of a command's page: `router-group-new`."""
    return "-".join(ctx.command_path.split())


def page_text(ctx: click.Context) -> str:
    """Return a command's manual page, in the language of man(7)."""
    from importlib.metadata import version

    command, name = ctx.command, page_name(ctx)
    lines = [
        f'.TH "{escaped(name.upper())}" "{SECTION}" "" "{DISTRIBUTION} {version(DISTRIBUTION)}" "User Commands"',
        ".nh",  # no words cut in two, and none spread over the line
        ".ad l",
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(_summary(command))}",
        ".SH SYNOPSIS",
        _synopsis(ctx),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    lines += _listed("OPTIONS", _records(ctx))
    if isinstance(command, click.Group):
        lines += _listed("COMMANDS", _commands(ctx, command))
    lines += _listed("ENVIRONMENT", _ENVIRONMENT)
    parts = [] if ctx.parent is None else [page_name(ctx.parent)]
    lines += [".SH SEE ALSO", _references(parts or ["router-init", "router-serve", "router-doctor"])]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text as man(7) reads it back: no character of it is a request, an escape or a hyphen to break at."""
    return _LEADING.sub(r"\\&", text.replace("\\", "\\(rs").replace("-", "\\-"))


def _marked(text: str) -> str:
    """Return an escaped text with the words in backquotes in bold type."""
    return _SPAN.sub(lambda found: f"\\fB{found[1]}\\fP", escaped(text))


def _summary(command: click.Command) -> str:
    """Return the first sentence of a command's help on one line, without its full stop."""
    first = (command.help or "").strip().partition("\n\n")[0]
    return " ".join(first.split()).rstrip(".").replace("`", "")


def _synopsis(ctx: click.Context) -> str:
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    return f"\\fB{escaped(ctx.command_path)}\\fP {escaped(pieces)}"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of a help text. A paragraph that begins with a line `\\b` keeps its lines."""
    for at, block in enumerate(re.split(r"\n\s*\n", text.strip())):
        if at:
            yield ".PP"
        kept, found, rest = block.partition("\b\n")
        if found and not kept.strip():
            yield from (".nf", _marked(rest), ".fi")
        else:
            yield _marked(" ".join(block.split()))


def _records(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the forms and the help of each option, and of each argument that has a help of its own."""
    for one in ctx.command.get_params(ctx):
        record = one.get_help_record(ctx)
        if record is not None and record[1]:
            yield record


def _commands(ctx: click.Context, group: click.Group) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        if found is not None and not found.hidden:
            yield f"{page_name(ctx)}-{name}({SECTION})", f"{_summary(found)}."


def _listed(heading: str, records: Iterable[tuple[str, str]]) -> Iterator[str]:
    for at, (term, text) in enumerate(records):
        if at == 0:
            yield f".SH {heading}"
        yield from (".TP", f"\\fB{escaped(term)}\\fP", _marked(" ".join(text.split())))


def _references(names: Sequence[str]) -> str:
    return ", ".join(f"\\fB{escaped(name)}\\fP({SECTION})" for name in names)


def _found(root: click.Context, words: Sequence[str]) -> click.Context:
    """Return the context of the command that the words name. Raise `UsageError` if there is none."""
    ctx = root
    for word in words:
        group = ctx.command
        found = group.get_command(ctx, word) if isinstance(group, click.Group) else None
        if found is None:
            names = ", ".join(group.list_commands(ctx)) if isinstance(group, click.Group) else "none"
            raise click.UsageError(f'"{ctx.command_path}" has no command "{word}"; it has: {names}')
        ctx = click.Context(found, info_name=word, parent=ctx)
    return ctx


def _write(folder: Path, root: click.Context) -> None:
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ctx in every_command(root):
            path = folder / f"{page_name(ctx)}.{SECTION}"
            path.write_text(page_text(ctx), encoding="utf-8")
            path.chmod(MODE)
            count += 1
    except OSError as error:
        said = f"the manual pages cannot be written into {folder}: {error.strerror} ({error.filename})"
        raise Failure(Exit.FAILED, f"{said}; name another folder") from None
    note(f"wrote {count} pages into {folder}")
