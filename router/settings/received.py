"""The invitations that this node was given, and its rights by them: one file each under `invitations/` in its home
(R-D16).

A file holds the link, and so its secret, until the inviter has answered; then only the outcome, which is deleted when
nothing was heard of it for `KEEP_S`. Files are 0600, written whole and synced, and named by the invitation's id. The
group of an invitation is kept before its file is changed, so that no crash loses it: a link that is still in its file
is redeemed again, with the same answer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.grouplink import GroupLink
from router.core.wire.invitation import Invitation, parse_peer_link
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import Reason, by_word
from router.core.wire.text import BadText
from router.disk import private_file
from router.settings import keyring
from router.settings.keyring import KeyringError

log = logging.getLogger(__name__)

DIRECTORY = "invitations"
KEEP_S = 30 * 86_400
TOLD_AGAIN_S = 86_400
"""Seconds after which unchanged rights are written with a new `told_s`."""
RECEIVED_MAX = 1_000
FILE_BYTES_MAX = 4_096

ASK_AGAIN = "ask its operator for a new invitation"

State = Literal["waiting", "joined", "refused"]
Home = os.PathLike[str] | str


class ReceivedInvitation(Struct, frozen=True, kw_only=True):
    """An invitation and its outcome; keys and ids are in hex, `link` is "" once it is answered.

    `rights` are those offered, later those granted. `reason` and `sentence` say why it was refused, or why its group
    could not be kept. `grant_until_s`: end of the rights, 0: none. `had`: we had the rights before, so no use was
    counted. `told_s`: when its router last stated our rights, which are noted in all its answered invitations; `ended`:
    the word of the reason for which all rights ended. One that was accepted and is asked again keeps these until the
    answer."""

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
    had: bool = False
    told_s: int = 0
    ended: str = ""

    def __repr__(self) -> str:
        return f"<invitation {self.id[:8]} by {self.inviter[:8]}, {self.outcome}>"

    @property
    def key(self) -> bytes:
        """Return the inviter's key."""
        return bytes.fromhex(self.inviter)

    @property
    def known_s(self) -> int:
        """Return the Unix second of the latest news about it."""
        return max(self.answered_s, self.told_s)

    @property
    def is_open(self) -> bool:
        """Whether its router has never answered it."""
        return self.outcome == "waiting" and not self.answered_s

    @property
    def tells_rights(self) -> bool:
        """Whether its router has stated our rights here; a refusal alone does not."""
        return not self.is_open and (self.outcome != "refused" or self.told_s > 0)

    def gives(self, now_s: float) -> bool:
        """Whether we have rights, by the router's latest statement in this invitation."""
        return self.tells_rights and bool(self.rights) and not 0 < self.grant_until_s <= now_s

    def problem(self, now_s: float, cause: str = "") -> str:
        """Return the problem with this invitation as a sentence about its router, "" if there is none. `cause`: why an
        answer is still missing."""
        said = self.sentence[:1].lower() + self.sentence[1:].rstrip(".")
        if self.is_open:
            return f"its invitation is not answered yet{cause and ': '}{cause}"
        if self.gives(now_s):
            return f"it let us in, but {said}" if said and self.outcome != "refused" else ""
        if self.tells_rights and self.grant_until_s and (self.ended or self.grant_until_s <= now_s):
            ended = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.grant_until_s))
            return f"the rights that it gave us ended on {ended}; {ASK_AGAIN}"
        if (reason := by_word(self.ended)) is not None:
            advice = "ask its operator to unblock this node" if reason is Reason.BLOCKED else ASK_AGAIN
            return f"it gives us no rights any more: {reason.clause}; {advice}"
        if self.outcome == "refused":
            return f"it refused our invitation: {said}; {ASK_AGAIN}"
        return f"it gives us no rights any more; {ASK_AGAIN}"

    def invitation(self) -> Invitation | None:
        """Return the invitation with its secret; None if it is answered, or damaged."""
        try:
            found = parse_peer_link(self.link) if self.link else None
        except BadText:
            return None
        return found if isinstance(found, Invitation) else None


class InvitationAnswer(Struct, frozen=True, kw_only=True):
    """The answer to an invitation: the rights granted, or in `reason` and `sentence` why it was refused (`reason` "" if
    it was not)."""

    rights: tuple[str, ...] = ()
    reason: str = ""
    sentence: str = ""
    grant_until_s: int = 0
    had: bool = False


class ToldTerms(Struct, frozen=True, kw_only=True):
    """A router's statement of our rights: `rights` until `grant_until_s` (0: without end). Without rights, `ended` is
    the word of the reason ("": none was named) and `grant_until_s` the second at which they ended (0: not known)."""

    rights: tuple[str, ...] = ()
    grant_until_s: int = 0
    ended: str = ""


def keep(home: Home, invitation: Invitation) -> ReceivedInvitation:
    """Keep an invitation until it is answered; return its file's content.

    One that was answered before is asked again, because the answer may differ now; rights that it gave count until
    then. One that waits stays as it is, unless its link is damaged. At most `RECEIVED_MAX` are kept."""
    wanted = ReceivedInvitation(
        id=invitation.id.hex(),
        inviter=invitation.inviter.hex(),
        until_s=expiry_s(invitation.expiry_min),
        rights=invitation.rights,
        link=invitation.text(),
    )
    try:
        return _kept_as(wanted, Path(home) / DIRECTORY)
    except OSError as error:
        said = f"{Path(home) / DIRECTORY} cannot be written: {error.strerror}"
        raise KeyringError(f"{said}; see that there is room and writing is allowed") from None


def _kept_as(wanted: ReceivedInvitation, directory: Path) -> ReceivedInvitation:
    private_file.make_directory(directory)
    with private_file.alone(directory):
        before = _read(directory / wanted.id)
        if isinstance(before, ReceivedInvitation) and before.invitation() is not None:
            return before
        if before is None and len(_files(directory)) >= RECEIVED_MAX:
            said = f"{directory} holds {RECEIVED_MAX} invitations, which is the most"
            raise KeyringError(f"{said}; `router peer remove` ends those of a neighbour")
        if isinstance(before, ReceivedInvitation) and before.gives(time.time()):
            wanted = replace(before, link=wanted.link, outcome="waiting")
        _write(directory, wanted)
    return wanted


def received(home: Home) -> list[ReceivedInvitation]:
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


def find(home: Home, id: bytes) -> ReceivedInvitation | None:
    """Return the invitation with that id, None if it is not kept or cannot be read."""
    found = _read(Path(home) / DIRECTORY / id.hex())
    return found if isinstance(found, ReceivedInvitation) else None


def answered(home: Home, id: bytes, answer: InvitationAnswer, now_s: int) -> ReceivedInvitation | None:
    """Record the answer: keep the group if the invitation was accepted, then delete the link. Return the new content of
    the file; None if no answer was awaited."""
    directory = Path(home) / DIRECTORY
    if not directory.is_dir():
        return None
    with private_file.alone(directory):
        one = _read(directory / id.hex())
        if not isinstance(one, ReceivedInvitation) or one.outcome != "waiting":
            return None
        invitation = one.invitation()
        group, fault = "", ""
        if not answer.reason and invitation is not None and invitation.group is not None:
            group, fault = _kept(home, invitation.group)
        new = replace(
            one,
            link="",
            outcome="refused" if answer.reason else "joined",
            reason=answer.reason,
            sentence=answer.sentence or fault,
            rights=answer.rights,
            group=group,
            grant_until_s=answer.grant_until_s,
            answered_s=now_s,
            had=answer.had,
            told_s=0,
            ended="",
        )
        _write(directory, new)
    return new


def told(home: Home, inviter: bytes, said: ToldTerms, now_s: int) -> bool:
    """Record our current rights in all answered invitations by this key; return whether this took away all rights."""
    directory, lost = Path(home) / DIRECTORY, False
    if not directory.is_dir():
        return False
    with private_file.alone(directory):
        for one in received(home):
            if one.key != inviter or one.is_open:
                continue
            new = replace(one, rights=said.rights, grant_until_s=said.grant_until_s, ended=said.ended, told_s=now_s)
            lost |= one.tells_rights and bool(one.rights) and not said.rights
            if replace(new, told_s=one.told_s) != one or not one.answered_s <= one.told_s > now_s - TOLD_AGAIN_S:
                _write(directory, new)
    return lost


def problems(
    found: Iterable[ReceivedInvitation], now_s: float, cause: Callable[[ReceivedInvitation], str] = lambda one: ""
) -> dict[bytes, str]:
    """Return by router what is wrong with our rights there, by the latest news; a later refusal does not hide rights
    that we have. `cause(one)`: why an invitation is not answered yet."""
    by_key: dict[bytes, list[ReceivedInvitation]] = {}
    for one in found:
        by_key.setdefault(one.key, []).append(one)
    return {key: said for key, ones in by_key.items() if (said := _problem(ones, now_s, cause))}


def rights_at(home: Home, inviter: bytes, now_s: float) -> tuple[str, ...]:
    """Return our rights at a router by its latest statement; none if it has made none."""
    told = _newest(one for one in received(home) if one.key == inviter)
    return told.rights if told is not None and told.gives(now_s) else ()


def _newest(found: Iterable[ReceivedInvitation]) -> ReceivedInvitation | None:
    """Return the invitation with its router's latest statement of our rights."""
    return max((one for one in found if one.tells_rights), key=lambda one: one.known_s, default=None)


def _problem(ones: list[ReceivedInvitation], now_s: float, cause: Callable[[ReceivedInvitation], str]) -> str:
    waiting = [one for one in ones if one.is_open]
    if waiting:
        return waiting[-1].problem(now_s, cause(waiting[-1]))
    rights = _newest(ones)
    if rights is not None and rights.gives(now_s):
        return rights.problem(now_s)
    return max(ones, key=lambda one: one.known_s).problem(now_s)


def drop(home: Home, id: bytes) -> None:
    """Forget one invitation."""
    (Path(home) / DIRECTORY / id.hex()).unlink(missing_ok=True)


def withdraw(home: Home, inviter: bytes) -> None:
    """Forget all invitations by this key, answered or not."""
    for one in received(home):
        if one.key == inviter:
            drop(home, bytes.fromhex(one.id))


def tidy(home: Home, now_s: int) -> None:
    """Delete answered invitations of which nothing was heard for `KEEP_S`."""
    for one in received(home):
        if one.outcome != "waiting" and one.known_s + KEEP_S <= now_s:
            drop(home, bytes.fromhex(one.id))


def _kept(home: Home, link: GroupLink) -> tuple[str, str]:
    """Keep the group; return its name here, and the fault if it cannot be kept."""
    try:
        return keyring.add_given_group(home, link), ""
    except KeyringError as error:
        return "", f"its group was not kept: {error}"


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(one for one in directory.iterdir() if len(one.name) == 64)
    except FileNotFoundError:
        return []


def _write(directory: Path, one: ReceivedInvitation) -> None:
    path = directory / one.id
    private_file.replace(path, msgspec.json.encode(one) + b"\n")


def _read(path: Path) -> ReceivedInvitation | str | None:
    """Return the file's content, None if there is none, or its fault as a sentence that does not contain the secret."""
    content = private_file.read_worded(path, FILE_BYTES_MAX)
    if content is None or isinstance(content, str):
        return content
    try:
        return msgspec.json.decode(content, type=ReceivedInvitation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"{path} should hold an invitation; move it away, and add the invitation again"
