"""The unit file by which systemd runs a node (systemd.service(5), systemd.exec(5)), as text."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import PurePosixPath

from msgspec import Struct

STATE = PurePosixPath("/var/lib")
"""Where systemd keeps the state of the machine's services."""
STARTS_WITHIN, STOPS_WITHIN, WATCHDOG = "10min", "60s", "2min"
"""How long a node may take to start, which reads a large store; to stop; and not to answer the service manager."""
UNIT_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_MADE = "# Made by `router service install`. What you change here is kept: {}"
_PACKAGED = "# Of the package {}, which replaces it on an upgrade: change it by `systemctl edit {}`.\n"
_MARK = re.compile(re.escape(_MADE.format("")) + r"([0-9a-f]{16})\n")
_OF_A_MACHINE = """\
User={user}
StateDirectory={state}
StateDirectoryMode=0700
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
PrivateDevices=true
PrivateUsers=true
ProtectClock=true
ProtectControlGroups=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
ProtectProc=invisible
RemoveIPC=true
CapabilityBoundingSet=
"""
_TEXT = """\
[Unit]
Description=Key-addressed message router ({name})
{after}
[Service]
Type=notify
NotifyAccess=main
ExecStart={start}
Restart=on-failure
RestartSec=2
TimeoutStartSec={starts_within}
TimeoutStopSec={stops_within}
WatchdogSec={watchdog}
UMask=0077
LimitNOFILE=65536
LimitCORE=0
NoNewPrivileges=true
LockPersonality=true
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=setpriority
{of_a_machine}
[Install]
WantedBy={target}
"""


class UnitFault(ValueError):
    """This cannot be a unit; the text says why and what to do."""


class Unit(Struct, frozen=True):
    """A node as a unit. `program`: the command without arguments; `home`: absolute; `user`: the account as which the
    machine's service manager runs it, "" for a unit of the user's own."""

    name: str
    program: tuple[str, ...]
    home: str
    user: str = ""

    @property
    def file_name(self) -> str:
        return f"{self.name}.service"

    def text(self) -> str:
        """Return the file. Raise `UnitFault` for what no unit can name."""
        body = self._body()
        return f"{_MADE.format(_digest(body))}\n{body}"

    def text_of_package(self, package: str) -> str:
        """Return the file as a package of the distribution brings it. Raise `UnitFault` for what no unit can name."""
        return _PACKAGED.format(package, self.name) + self._body()

    def _body(self) -> str:
        words = [*self.program, "--home", self.home, "serve"]
        of_a_machine = _OF_A_MACHINE.format(user=self.user, state=self._state()) if self.user else ""
        return _TEXT.format(
            name=self.name,
            start=" ".join(map(quoted, words)),
            after="After=network-online.target\nWants=network-online.target\n" if self.user else "",
            starts_within=STARTS_WITHIN,
            stops_within=STOPS_WITHIN,
            watchdog=WATCHDOG,
            of_a_machine=of_a_machine,
            target="multi-user.target" if self.user else "default.target",
        )

    def _state(self) -> str:
        home = PurePosixPath(self.home)
        if STATE not in home.parents:
            raise UnitFault(
                f"the home of a node of the machine lies below {STATE}, and {self.home} does not: "
                f"use --home {STATE / self.name}"
            )
        return str(home.relative_to(STATE)).replace("%", "%%").replace(" ", r"\x20")


def quoted(word: str) -> str:
    """Return a word of a command as systemd reads it back: in quotes, with nothing expanded."""
    if any(ord(one) < 32 or ord(one) == 127 for one in word):
        raise UnitFault(f"{word!r} has a control character, which no unit can name: use another path")
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if not re.fullmatch(r"[\w/.:@+-]+", text, re.ASCII) else text


def is_made(text: str) -> bool:
    """Whether a unit file is as it was made here: nobody has changed it since."""
    found = _MARK.match(text)
    return found is not None and found[1] == _digest(text[found.end() :])


def home_of(text: str) -> str:
    """Return the home that a unit file names, "" if it names none."""
    found = re.search(r'^ExecStart=.* --home (?:"((?:[^"\\]|\\.)*)"|(\S+)) serve', text, re.MULTILINE)
    if found is None:
        return ""
    said = found[1] if found[1] is not None else found[2]
    return re.sub(r"\\(.)", r"\1", said).replace("%%", "%").replace("$$", "$")


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=8).hexdigest()
