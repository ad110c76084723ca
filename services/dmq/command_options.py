"""Options and arguments that several commands of the DMQ node share."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from router.cli.exits import Exit, Failure
from router.core.wire.text import hex_fault
from services.dmq.core.networks import Terms, network_of
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.revision import REVISIONS, Revision
from services.dmq.core.stake.chain_time import GENESIS_BYTES_MAX, MAINNET, BadGenesis, ChainTime, read_genesis

FILE_BYTES_MAX = 64 << 20
_DIGITS = re.compile(rb"[0-9a-fA-F]+")

Function = TypeVar("Function", bound=Callable[..., Any])


class Given(NamedTuple):
    """A message that a command was given; `name`: the file that holds it, "" if it was given in hex."""

    name: str
    wire: bytes

    def about(self, sentence: str) -> str:
        """Return a sentence that begins with "This", about bytes that are no message, with the file and a remedy."""
        if not self.name:
            return sentence
        remedy = "name a file that holds a message in bytes, or one a line in hex"
        return f"{self.name}{sentence.removeprefix('This').rstrip('.')}; {remedy}."


class _NetworkType(click.ParamType[Terms]):
    """A network's name, or the magic of its DMQ nodes."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Terms:
        if isinstance(value, Terms):
            return value
        try:
            return network_of(str(value))
        except ValueError as error:
            self.fail(str(error))


class _RevisionType(click.Choice[str]):
    """The name of a revision, read as the revision."""

    def __init__(self) -> None:
        super().__init__(list(REVISIONS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, Revision) else REVISIONS[str(super().convert(value, param, ctx))]


def network_option(command: Function) -> Function:
    return click.option(
        "--network",
        type=_NetworkType(),
        default="mainnet",
        show_default=True,
        metavar="NAME|MAGIC",
        help=f"{', '.join(MAGICS)}, or the magic of the network's DMQ nodes.",
    )(command)


def home_network_option(command: Function) -> Function:
    return click.option(
        "--network",
        type=_NetworkType(),
        metavar="NAME|MAGIC",
        help=f"{', '.join(MAGICS)}, or the magic of the network's DMQ nodes. Default: that of this home's node, if it "
        "has one, else mainnet.",
    )(command)


def revision_option(command: Function) -> Function:
    return click.option(
        "--revision",
        type=_RevisionType(),
        default=next(iter(REVISIONS)),
        show_default=True,
        help="Which revision of CIP-137 the messages and the node are of.",
    )(command)


class _SocketPath(click.Path):
    """The path of a Unix socket, also as the URL `unix://PATH` by which other commands are given it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(str(value).removeprefix("unix://"), param, ctx)


def socket_option(command: Function) -> Function:
    return click.option(
        "--socket",
        type=_SocketPath(path_type=Path),
        required=True,
        envvar="DMQ_NODE_SOCKET_PATH",
        metavar="PATH",
        help="The node's socket for clients. Default: DMQ_NODE_SOCKET_PATH, as for mithril's signer.",
    )(command)


def home_socket_option(command: Function) -> Function:
    return click.option(
        "--socket",
        type=_SocketPath(path_type=Path),
        envvar="DMQ_NODE_SOCKET_PATH",
        metavar="PATH",
        help="The node's socket for clients. Default: DMQ_NODE_SOCKET_PATH, else that of this home's node.",
    )(command)


def genesis_option(command: Function) -> Function:
    return click.option(
        "--genesis",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The network's Shelley genesis, for KES periods by the clock. Default: that of --network.",
    )(command)


def chain_of(network: Terms, genesis: Path | None) -> ChainTime:
    """Return the constants of the genesis file, or else of the network; for a network without a name, those of
    mainnet."""
    return network.chain or MAINNET if genesis is None else read_genesis_file(genesis)


def outside_period(error: str, counted_for: str | None, is_given: bool) -> str:
    """Return the error of a KES period that the keys do not cover; `counted_for`: the network that has it by the
    clock, None if the period or a genesis was given."""
    if counted_for is None:
        return error
    fault, _, remedy = error.partition("; ")
    how = "as --network says" if is_given else "since --network was not given"
    said = f"{fault}, which is the present one of {counted_for}, {how}"
    return f"{said}: if the keys are of another network, name that with --network; else {remedy}"


def read_genesis_file(path: Path) -> ChainTime:
    """Return the constants of a Shelley genesis."""
    try:
        return read_genesis(read_file(path, GENESIS_BYTES_MAX))
    except BadGenesis as error:
        raise Failure(Exit.USAGE, f"{path}: {error}") from None


def read_file(path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return the file's content, at most one byte more than `bytes_max`; `-` is standard input."""
    try:
        with click.open_file(str(path), "rb") as file:
            data: bytes = file.read(bytes_max + 1)
    except OSError as error:
        raise Failure(Exit.USAGE, f"cannot read {path}: {error.strerror}; name a file that can be read") from None
    return data


def messages_of(arguments: Sequence[str]) -> Iterator[Given]:
    """Yield the messages that the arguments give: in hex, as files of one message in bytes, or as files of one a line
    in hex.

    An argument that is neither a file nor hex ends the command.
    """
    for argument in arguments:
        path = Path(argument)
        if argument != "-" and not _is_file(path):
            yield Given("", _message_in(argument))
            continue
        yield from _messages_in(read_file(path), path)


def _message_in(argument: str) -> bytes:
    """Return the message that an argument gives in hex."""
    fault = hex_fault(argument)
    if fault and _DIGITS.fullmatch(argument.encode(errors="surrogateescape")):
        raise Failure(Exit.USAGE, f"{argument[:60]!r} is no file, and as a message in hex it {fault}")
    if fault or not argument:
        text = f"{argument[:60]!r} is neither a file nor hexadecimal"
        raise Failure(Exit.USAGE, f"{text}; give a message as HEX or as FILE")
    return bytes.fromhex(argument)


def _messages_in(data: bytes, path: Path) -> Iterator[Given]:
    if len(data) > FILE_BYTES_MAX:
        raise Failure(Exit.USAGE, f"{path} is longer than {FILE_BYTES_MAX >> 20} MiB; split it, one message a line")
    lines = data.removeprefix(codecs.BOM_UTF8).split()
    if not lines:
        raise Failure(Exit.USAGE, f"{path} is empty; give a file that holds a message")
    if not all(map(_DIGITS.fullmatch, lines)):
        yield Given(str(path), data)
        return
    for number, line in enumerate(lines, 1):
        if fault := hex_fault(line.decode()):
            raise Failure(Exit.USAGE, f"message {number} in {path} {fault}")
        yield Given(str(path) if len(lines) == 1 else f"message {number} in {path}", bytes.fromhex(line.decode()))


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # A name that is too long is no file's.
        return False
