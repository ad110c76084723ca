"""The invitations that a node was given, under `invitations/` in its home, one file each (R-D16).

A file holds the link, and so its secret, until the inviter has answered; then only what became of it, for `KEEP_S`.
Files are 0600, written whole and synced, and named by the invitation's id. The group of an invitation is kept before
its file is changed, so that no crash loses it: whoever finds the link still there redeems it again, to the same answer.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.grouplink import GroupLink
from router.core.wire.invitation import Invitation, parse_peer_link
from router.core.wire.lifetime import expiry_s
from router.core.wire.text import BadText
from router.disk import private_file
from router.settings import keyring
from router.settings.keyring import KeyringError

log = logging.getLogger(__name__)

DIRECTORY = "invitations"
KEEP_S = 30 * 86_400
RECEIVED_MAX = 1_000
FILE_BYTES_MAX = 4_096

State = Literal["waiting", "joined", "refused"]
Home = os.PathLike[str] | str


class Received(Struct, frozen=True, kw_only=True):
    """An invitation and what became of it; keys and ids in hex, `link` "" once it is answered.

    `rights` are those offered, then those granted; `reason` and `sentence` say why it was refused, or why the group it
    brought could not be kept. `grant_until_s`: end of the rights, 0: none."""

    id: str
    inviter: str
    until_s: int
    rights: tuple[str, ...]
    link: str = ""
    outcome: State = "waiting"
    reason: str = ""
    sentence: str = ""
    group: str = ""
    grant_until_s: int = 0
    answered_s: int = 0

    def __repr__(self) -> str:
        return f"<invitation {self.id[:8]} by {self.inviter[:8]}, {self.outcome}>"

    @property
    def key(self) -> bytes:
        """Return the inviter's key."""
        return bytes.fromhex(self.inviter)

    def problem(self, cause: str = "") -> str:
        """Return what is wrong with it as a sentence about its router, "" if nothing is; `cause`: why it waits."""
        said = self.sentence[:1].lower() + self.sentence[1:].rstrip(".")
        match self.outcome:
            case "waiting":
                return f"its invitation is not answered yet{cause and ': '}{cause}"
            case "refused":
                return f"it refused our invitation: {said}"
        return f"it let us in, but {said}" if said else ""

    def invitation(self) -> Invitation | None:
        """Return the invitation with its secret; None if it is answered, or damaged."""
        try:
            found = parse_peer_link(self.link) if self.link else None
        except BadText:
            return None
        return found if isinstance(found, Invitation) else None


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to an invitation: `reason` "" and the rights granted, or the word and sentence of why not."""

    rights: tuple[str, ...] = ()
    reason: str = ""
    sentence: str = ""
    grant_until_s: int = 0


def keep(home: Home, invitation: Invitation) -> Received:
    """Keep an invitation until it is answered, anew if it was answered before, as its inviter may say otherwise now;
    return its file's content.

    One that waits stays as it is, unless its link is damaged. At most `RECEIVED_MAX` are kept."""
    wanted = Received(
        id=invitation.id.hex(), inviter=invitation.inviter.hex(), until_s=expiry_s(invitation.expiry_min),
        rights=invitation.rights, link=invitation.text(),
    )  # fmt: skip
    directory = Path(home) / DIRECTORY
    private_file.make_directory(directory)
    with private_file.alone(directory):
        before = _read(directory / wanted.id)
        if isinstance(before, Received) and before.invitation() is not None:
            return before
        if before is None and len(_files(directory)) >= RECEIVED_MAX:
            said = f"{directory} holds {RECEIVED_MAX} invitations, which is the most"
            raise KeyringError(f"{said}; `router peer remove` ends those of a neighbour")
        _write(directory, wanted)
    return wanted


def received(home: Home) -> list[Received]:
    """Return all invitations that can be read; log the faults of the others."""
    directory = Path(home) / DIRECTORY
    found = []
    for path in _files(directory):
        one = _read(path)
        if isinstance(one, str):
            log.warning("%s", one)
        elif one is not None:
            found.append(one)
    return found


def find(home: Home, id: bytes) -> Received | None:
    """Return the invitation with that id, None if it is not kept or cannot be read."""
    found = _read(Path(home) / DIRECTORY / id.hex())
    return found if isinstance(found, Received) else None


def answered(home: Home, id: bytes, answer: Answer, now_s: int) -> Received | None:
    """Note the answer: keep the group if it is a yes, then drop the link. Return the new content of the file; None if
    it waits for no answer, as it was answered or withdrawn."""
    directory = Path(home) / DIRECTORY
    if not directory.is_dir():
        return None
    with private_file.alone(directory):
        one = _read(directory / id.hex())
        if not isinstance(one, Received) or one.outcome != "waiting":
            return None
        invitation = one.invitation()
        group, fault = "", ""
        if not answer.reason and invitation is not None and invitation.group is not None:
            group, fault = _kept(home, invitation.group)
        new = replace(
            one, link="", outcome="refused" if answer.reason else "joined", reason=answer.reason,
            sentence=answer.sentence or fault, rights=answer.rights, group=group, grant_until_s=answer.grant_until_s,
            answered_s=now_s,
        )  # fmt: skip
        _write(directory, new)
    return new


def drop(home: Home, id: bytes) -> None:
    """Forget one invitation."""
    (Path(home) / DIRECTORY / id.hex()).unlink(missing_ok=True)


def withdraw(home: Home, inviter: bytes) -> None:
    """Forget all invitations by this key, answered or not."""
    for one in received(home):
        if one.key == inviter:
            drop(home, bytes.fromhex(one.id))


def tidy(home: Home, now_s: int) -> None:
    """Delete what became of invitations that were answered `KEEP_S` ago or earlier."""
    for one in received(home):
        if one.outcome != "waiting" and one.answered_s + KEEP_S <= now_s:
            drop(home, bytes.fromhex(one.id))


def _kept(home: Home, link: GroupLink) -> tuple[str, str]:
    """Keep the group under its name, or with a number behind it if that is another group's; return its name here, and
    the fault if it cannot be kept."""
    name, taken = keyring.name_for(link), {one.group: name for name, one in keyring.groups(home).items()}
    names = (name, *(f"{name[:60]}-{number}" for number in range(2, len(taken) + 3)))
    free = next(one for one in names if one not in taken.values())
    try:
        return keyring.add_group(home, taken.get(link.group, free), link), ""
    except KeyringError as error:
        return "", f"its group was not kept: {error}"


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(one for one in directory.iterdir() if len(one.name) == 64)
    except FileNotFoundError:
        return []


def _write(directory: Path, one: Received) -> None:
    path = directory / one.id
    private_file.replace(path, msgspec.json.encode(one) + b"\n")


def _read(path: Path) -> Received | str | None:
    """Return the file's content, None if there is none, or its fault as a sentence without the secret."""
    try:
        return msgspec.json.decode(private_file.read(path, FILE_BYTES_MAX), type=Received)
    except FileNotFoundError:
        return None
    except private_file.Exposed as exposed:
        return f"{path} can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}; it must be a file of the user who runs this"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"{path} should hold an invitation; move it away, and add the invitation again"
