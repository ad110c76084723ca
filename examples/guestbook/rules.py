"""The decisions of a guestbook. Nothing here touches a socket, a clock or a disk: the same class runs in a
simulation."""

from __future__ import annotations

import json

from guestbook.reasons import EMPTY, FULL
from router.core.wire.crypto import MessageId, PublicKey
from router.service import contract as c

PAGE = b"page/"
COUNT = b"count"
VISIT, MEET = b"visit", b"meet "
LINK = b"LINK\n"
SHOWN_CHARS_MAX = 2_000
LISTED_BYTES_MAX = 40_000
"""Size at which a list of pages ends: an answer holds at most 64,512 bytes, and the last page may take 12,000."""


class Guestbook:
    """A guestbook: it keeps each unicast as a page and answers with its number; a few words are commands instead of
    pages."""

    def __init__(self, setup: c.Setup) -> None:
        self.key = setup.key
        self.kept = setup.kept
        self.settings = setup.settings
        self.asked: dict[str, c.Asked] = {}

    def doors(self) -> dict[str, str]:
        """Return the doors where it can be reached besides its address."""
        return {"board": self.settings.board, "desk": self.settings.desk}

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case c.Started():
                return [c.Join(local=True)]
            case c.Message(source=PublicKey() as guest):
                return self._read(heard, guest, now)
            case c.Asked():
                return self._answer(heard)
            case c.Computed(tag, result, error):
                value = {"favourite": result.decode("utf-8", "replace"), "error": error}
                return [c.Answer(self.asked.pop(tag).number, value)] if tag in self.asked else []
            case c.Pulled(id=id, wire=wire):
                return self._pass_on(id.hex(), wire)
            case c.Came("board", peer, _):
                return [c.Write("board", peer, b"%d pages\n" % self.count)]
            case c.Came("desk", peer, data):
                return self._at_desk(peer, data)
            case _:
                return []

    @property
    def count(self) -> int:
        """Return how many pages were ever written."""
        return int(self.kept.get(COUNT, b"0"))

    def _page(self, text: bytes, guest: str) -> list[c.Deed]:
        number = self.count + 1
        value = guest.encode() + b" " + text
        return [c.Put(PAGE + b"%08d" % number, value), c.Put(COUNT, b"%d" % number)]

    def _read(self, heard: c.Message, guest: PublicKey, now: c.Now) -> list[c.Deed]:
        """Handle a guest's message: a page, or one of the words."""
        body, until_s = heard.body, int(now.wall_s) + self.settings.visit_s
        if body == VISIT:  # this guest may join groups here, twice
            return [c.Grant(guest, ("join", "store"), until_s, uses=2), c.Send(guest, b"welcome")]
        if body.startswith(MEET):  # a neighbour, by key and URL
            key, _, url = body[len(MEET) :].partition(b" ")
            return [c.AddNeighbour(PublicKey(bytes.fromhex(key.decode())), (url.decode(),), until_s, "met")]
        if not body.strip():
            return [c.Refuse(EMPTY), c.LogEvent("guestbook_turned", heard.id, EMPTY)]
        if self.count >= self.settings.pages_max:
            return [c.Refuse(FULL), c.LogEvent("guestbook_turned", heard.id, FULL)]
        note = c.LogEvent("guestbook_signed", heard.id, fields={"page": self.count + 1})
        answer = b"page %d" % (self.count + 1)
        return [*self._page(body, guest.hex()), note, c.Send(guest, answer), c.Publish(answer, ttl_s=60)]

    def _at_desk(self, peer: str, data: bytes) -> list[c.Deed]:
        """Handle bytes from the desk's socket: a line is a page by somebody at this machine, a stream that begins with
        LINK is handed to the router."""
        if data.startswith(LINK):
            return [c.HandOver("desk", peer, data[len(LINK) :])]
        if not data.strip():
            return [c.Write("desk", peer, b"")]
        pages = self._page(data.strip(), "desk")
        return [*pages, c.Write("desk", peer, b"page %d\n" % (self.count + 1)), c.LogEvent("guestbook_signed")]

    def _answer(self, asked: c.Asked) -> list[c.Deed]:
        """Answer the operator: the pages, the favourite word, or that a page is struck out."""
        pages = {key: value for key, value in sorted(self.kept.items()) if key.startswith(PAGE)}
        if asked.word == "pages" and (asked.argument or "1").isdecimal():
            return [c.Answer(asked.number, self._listed(pages, int(asked.argument or "1")))]
        if asked.word == "favourite":
            text = b" ".join(value.partition(b" ")[2] for value in pages.values())
            self.asked[str(asked.number)] = asked
            return [c.Compute("guestbook.jobs:favourite", text, str(asked.number))]
        if asked.word == "strike" and asked.argument.isdecimal():
            key = PAGE + b"%08d" % int(asked.argument)
            note = c.LogEvent("guestbook_struck", fields={"page": int(asked.argument)})
            return [c.Put(key, None), note, c.Answer(asked.number, {"struck": int(key in pages)})]
        if asked.word == "pass":  # what we published, by its id, as it is to the router that is named
            self.asked[asked.argument[:64]] = asked
            return [c.Pull(self.key, MessageId(bytes.fromhex(asked.argument[:64])))]
        said = f"a guestbook knows pages, favourite, strike and pass, not {asked.word}"
        return [c.Answer(asked.number, {"error": said})]

    def _listed(self, pages: dict[bytes, bytes], first: int) -> dict[str, object]:
        """Return the pages from that number on that fit one answer, and the number to continue with (0: none)."""
        found: list[dict[str, object]] = []
        size = 0
        for key, value in pages.items():
            if (page := int(key[len(PAGE) :])) < first:
                continue
            if size > LISTED_BYTES_MAX:
                return {"pages": found, "next": page}
            guest, _, text = value.decode("utf-8", "replace").partition(" ")
            found.append({"page": page, "guest": guest, "text": text[:SHOWN_CHARS_MAX]})
            size += len(json.dumps(found[-1]))
        return {"pages": found, "next": 0}

    def _pass_on(self, id: str, wire: bytes | None) -> list[c.Deed]:
        """Send a message on as it was received, through the router that the operator named."""
        asked = self.asked.pop(id, None)
        if asked is None or wire is None:
            return [c.Answer(asked.number, {"error": "the router does not have it"})] if asked else []
        return [c.Forward(wire, PublicKey(bytes.fromhex(asked.argument[65:]))), c.Answer(asked.number, {"passed": id})]
