"""Exit codes, and how an error becomes one or two lines on standard error."""

from __future__ import annotations

import errno
import os
import re
import shlex
import traceback
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

import click

from router.cli import service_commands

_REMEDY = re.compile(r"`router (?!--home )([^`]+)`(?! there| on the other node)")
"""Matches a command that a text recommends for this machine, which neither of these words follows."""


class Exit(IntEnum):
    """The exit codes that scripts may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_NODE = 3
    REFUSED = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command with this code; the text says what happened and what to do."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(text)
        self.code = code


class Interrupted(Failure):
    """Ends a command that a signal has ended; the text says how far it came."""

    def __init__(self, text: str) -> None:
        super().__init__(Exit.INTERRUPTED, text)


def report(error: Exception, home_option: str | None = None) -> int:
    """Print the error on standard error, and return the exit code. `home_option`: the `--home` that was given."""
    from router.core.wire.text import without_links

    code, text = _judged(innermost(error))
    if not isinstance(error, click.ClickException):
        text = with_home(text, home_option)
    if text:
        click.echo(lines_for_terminal(without_links(text)), err=True)
    return code


def lines_for_terminal(text: str) -> str:
    """Return a text without what a terminal would obey, as it may repeat what others have said."""
    from router.core.wire.text import printable

    return "\n".join(map(printable, text.split("\n")))


def with_home(text: str, home_option: str | None) -> str:
    """Return the text with the `--home` that was given in each command that it names for this machine; the one that
    starts the node is that which has started it last."""
    text = _as_started(text, home_option)
    if not home_option:
        return text
    home = shell_word(home_option)
    return _REMEDY.sub(lambda found: f"`router --home {home} {found[1]}`", text)


def shell_word(text: str) -> str:
    """Return a text as one word on one line for a shell, also with a newline in it, or bytes that are no UTF-8."""
    if text.isprintable():
        return shlex.quote(text)
    plain = (chr(one) if 32 <= one < 127 and one not in b"\\'" else f"\\x{one:02x}" for one in os.fsencode(text))
    return f"$'{''.join(plain)}'"


def _as_started(text: str, home_option: str | None) -> str:
    from router.settings.home import Home, HomeError
    from router.settings.last_start import USUAL, remedy

    if USUAL not in text:
        return text
    with suppress(HomeError):
        return text.replace(USUAL, remedy(Home.chosen(home_option).path))
    return text


def innermost(error: Exception) -> Exception:
    """Return the first error that is not a group; nurseries group the errors of their tasks."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def is_interrupt(error: BaseException) -> bool:
    """Whether the error is Ctrl-C; it comes in a group where it hit a task of a nursery."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _judged(error: Exception) -> tuple[Exit, str]:
    match error:
        case Failure():
            return error.code, str(error)
        case click.Abort():
            return Exit.INTERRUPTED, ""
        case BrokenPipeError():
            leave_output()
            return Exit.FAILED, ""
        case OSError(errno=errno.ENOSPC, filename=None):
            leave_output()
            return Exit.FAILED, f"{error.strerror}: standard output, or a file of the home, could not be written"
        case click.exceptions.NoArgsIsHelpError():
            return Exit.USAGE, error.format_message()
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "router"
            said = error.format_message().rstrip(".")
            return Exit.USAGE, f"{said}{'' if said.endswith('?') else ';'} `{where} --help` shows how"
        case click.ClickException():
            return Exit(error.exit_code), error.format_message()
    cause = error.__cause__  # of an actor's failure, which ends the node
    return _known(error) or (_known(cause) if isinstance(cause, Exception) else None) or _unknown(error)


def leave_output() -> None:
    """Discard the buffered rest of standard output, because its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def unwritten(error: OSError) -> str:
    """Return why standard output could not be written."""
    if isinstance(error, BrokenPipeError):
        return "standard output was closed"
    return f"standard output cannot be written ({error.strerror})"


def _known(error: Exception) -> tuple[Exit, str] | None:
    for kinds, code in _load_table():
        if isinstance(error, kinds):
            return code, _sentence(error)
    return None


def _load_table() -> tuple[tuple[tuple[type[Exception], ...], Exit], ...]:
    """Return the errors whose text is a sentence for the user, with the exit code of each."""
    from router.client import errors
    from router.core.wire.application import SealError
    from router.core.wire.text import BadText
    from router.disk.log.eventlog import ForeignLog
    from router.disk.log.file import LogNotWritten
    from router.disk.state.environment import StateError
    from router.disk.store.terms import StoreError
    from router.service.plugins import NotStarted, UnknownService
    from router.service.verbs.verb import VerbFault
    from router.settings.config_text import ConfigError
    from router.settings.home import HomeError
    from router.settings.keyring import KeyringError
    from router.settings.names import UnknownName
    from router.transport.contract import InvalidUrl, ListenFailed

    return (
        ((errors.Renewed, errors.Replaced), Exit.FAILED),
        ((errors.NodeUnavailable,), Exit.NO_NODE),
        ((errors.Refused, errors.JoinRefused), Exit.REFUSED),
        ((errors.NotAnswered,), Exit.TIMED_OUT),
        (
            (
                HomeError,
                StoreError,
                StateError,
                ListenFailed,
                errors.JournalError,
                ForeignLog,
                LogNotWritten,
                SealError,
                NotStarted,
                VerbFault,
            ),
            Exit.FAILED,
        ),
        ((ConfigError, BadText, KeyringError, InvalidUrl, errors.ClientError, UnknownName, UnknownService), Exit.USAGE),
    )


def _sentence(error: Exception) -> str:
    """Return the error on one line: of the problems of a configuration the first, and how many more there are. A path
    in it may hold a newline."""
    from router.core.wire.text import printable
    from router.settings.config_text import ConfigError

    first, *more = error.problems if isinstance(error, ConfigError) else (str(error),)
    said = printable(first) or type(error).__name__
    return f"{said}\nand {len(more)} more; `router config check` lists them" if more else said


def _unknown(error: Exception) -> tuple[Exit, str]:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "; make room on its disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return Exit.FAILED, f"{where}{error.strerror}{remedy}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    said = " ".join(str(error).split())[:300]
    if own := next((one for one in reversed(frames) if service_commands.is_of_service(one.filename)), None):
        text = f"something is wrong in {own.filename}, line {own.lineno}: {type(error).__name__}: {said}"
        return Exit.FAILED, f"{text}\nthat file belongs to a service: tell its author, with the traceback of --verbose"
    text = f"something is wrong in this program: {type(error).__name__}: {said}{place}"
    return Exit.FAILED, f"{text}\nrun it again with --verbose for the traceback, and report that"
