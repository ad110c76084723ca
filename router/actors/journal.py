"""The journal of systemd: each record of the log as one entry with an id of its kind, where standard error leads there.

Sources: systemd.journal-fields(7), "JOURNAL_STREAM" in systemd.exec(5), https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from router.actors.log_lines import OneLine
from router.core.wire.text import SUBJECT

SOCKET = "/run/systemd/journal/socket"
ERROR, WARNING, INFO = 3, 4, 6
"""Priorities, as of syslog(3)."""


class MessageKind(NamedTuple):
    """A kind of warnings: its MESSAGE_ID, which never changes, and what they are about."""

    id: str
    about: str


KINDS = {
    "clock": MessageKind("4ba71ab7ac0544a5acc6be1805fdf179", "the clock jumped, is doubted, or is believed again"),
    "disk": MessageKind("0b8e90e9f6464d5f9ae85d0928398f9f", "the disk is full, or has room again"),
    "damage": MessageKind("c4e08e67b822463b8e6980ee651011cb", "the disk has damaged what the store holds"),
    "disk-and-log": MessageKind("a02bff2f31bf46afa8b58ab4d47a9a78", "store and log do not go together, or fail"),
    "snapshot": MessageKind("25318bf27b8849759414f6b506d002db", "a snapshot failed, or was made again"),
    "neighbour": MessageKind("87a152f460ca46febd3db70b0d99ed20", "a neighbour is refused, is copied, or misbehaves"),
    "key": MessageKind("e7fb3f46c9374388967dd69a83f614dc", "a key was renewed, or could not be"),
    "invitation": MessageKind("9d4615766cd44f91bda536a3a434d6f9", "an invitation was refused, or cannot be kept"),
    "service": MessageKind("9eb22b5a9059486a9d97fce60131d9b6", "a service failed, or says that something is wrong"),
    "configuration": MessageKind("3ddab6b5edb64e2f8d8eb596c8965f78", "a file of the home cannot be used as it is"),
    "certificate": MessageKind("3ce1b34701874c05b0cc76289bd7f38b", "a certificate, or a socket, cannot be used"),
    "fault": MessageKind("0e8a1ab6642c4eb6b450d4a77def588b", "a fault of this program ended a part of it"),
    "other": MessageKind("d78217876fdc43859088f20a05dbb51a", "everything else"),
}
PLACES = {
    "router.actors.actor": "fault",
    "router.actors.supervisor": "service",
    "router.client.feed": "service",
    "router.disk.log.alarm_lines": "disk-and-log",
    "router.disk.log.logbook": "disk-and-log",
    "router.node.asked_listeners": "configuration",
    "router.node.command": "configuration",
    "router.node.connection": "neighbour",
    "router.node.cycle": "neighbour",
    "router.node.descriptors": "configuration",
    "router.node.guest": "invitation",
    "router.node.housekeeping": "clock",
    "router.node.housekeeping._look_at_disk": "disk",
    "router.node.housekeeping._lose": "damage",
    "router.node.key_files": "key",
    "router.node.node": "fault",
    "router.node.node._run": "key",
    "router.node.node_starts": "key",
    "router.node.open_links": "neighbour",
    "router.node.opened_disk": "disk-and-log",
    "router.node.peers_file": "invitation",
    "router.node.residents": "service",
    "router.node.snapshots": "snapshot",
    "router.node.superseded": "key",
    "router.node.taking_up": "configuration",
    "router.node.verifiers": "fault",
    "router.service.host": "service",
    "router.settings.config_services": "service",
    "router.settings.home": "configuration",
    "router.settings.kept_files": "configuration",
    "router.settings.keyring": "configuration",
    "router.settings.received": "configuration",
    "router.transport.handshakes": "neighbour",
    "router.transport.socket_file": "certificate",
    "router.transport.web_certificate": "certificate",
    "services.web.metrics_page": "service",
}
"""The kind of what a logger says, or one function with it."""


def journal_handler(text: str = "%(message)s", descriptor: int = 2) -> logging.Handler | None:
    """Return the handler for this process's journal, None if `descriptor` does not lead to one. `text`: the format of
    an entry's MESSAGE."""
    return JournalHandler(SOCKET, text) if leads_to_journal(descriptor) else None


def leads_to_journal(descriptor: int) -> bool:
    """Whether systemd has connected a descriptor of this process to its journal, by what it says of that."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def kind_of(record: logging.LogRecord) -> str:
    """Return the kind of a record, by the function that logs it, else by its module."""
    return PLACES.get(f"{record.name}.{record.funcName}") or PLACES.get(record.name, "other")


class JournalHandler(logging.Handler):
    """Sends each record to the journal at the socket `place`; one that it does not take becomes a line on standard
    error."""

    def __init__(self, place: str, text: str = "%(message)s") -> None:
        super().__init__()
        self._place = place
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._rest = logging.StreamHandler()
        for one in (self, self._rest):
            one.setFormatter(OneLine(text))

    def __repr__(self) -> str:
        return f"<journal at {self._place}>"

    def emit(self, record: logging.LogRecord) -> None:
        entry = b"".join(encoded(name, value) for name, value in self._fields(record))
        try:
            self._socket.sendto(entry, self._place)
        except OSError:
            self._rest.handle(record)

    def close(self) -> None:
        self._socket.close()
        super().close()

    def _fields(self, record: logging.LogRecord) -> Iterator[tuple[str, str]]:
        kind = kind_of(record)
        priority = ERROR if record.levelno >= logging.ERROR else WARNING if record.levelno >= logging.WARNING else INFO
        yield "MESSAGE", self.format(record)
        yield "PRIORITY", str(priority)
        yield "SYSLOG_IDENTIFIER", "router"
        yield "CODE_FUNC", f"{record.name}.{record.funcName}"
        if priority <= WARNING:
            yield "MESSAGE_ID", KINDS[kind].id
            yield "ROUTER_KIND", kind
        if subject := getattr(record, SUBJECT, ""):
            yield "ROUTER_SERVICE", str(subject)


def encoded(name: str, value: str) -> bytes:
    """Return a field as the journal reads it: with its length, so that the value may hold any bytes."""
    data = value.encode(errors="surrogateescape")
    return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
