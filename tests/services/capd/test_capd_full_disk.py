"""A pool whose disk is nearly full answers requests and takes nothing; changes in the meantime are kept afterwards."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from samples.capd import posted
from samples.capd_net import Pool, greeted, post

from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd.core import messages as m
from services.capd.core.full_disk import ROOM_AGAIN, SAID
from services.capd.core.limits import Standing
from services.capd.core.message import rescind_hash_of
from services.capd.core.nexa.commands import INV_TYPE, GetMsg, Inv, MessagesReply, Msg, PrefixQuery
from services.capd.core.nexa.own_commands import RescindSecrets
from services.capd.core.pattern import Pattern

SECRET = b"s" * 32
OFFER = posted(b"TKD\x0coffer", 4.0)
SHORT = posted(b"TKD\x0cshort", 4.0, expiration=30)
ENDED = posted(b"TKD\x0cended", 4.0, secret_hash=rescind_hash_of(SECRET))
NEW = posted(b"TKD\x0cnew", 4.0)
TKD = Pattern.prefix(b"TKD\x0c")


class Kept(dict[bytes, bytes]):
    """The state of a service on a disk with room or without."""

    has_room = True


class PoolOnDisk(Pool):
    @property
    def kept(self) -> Kept:
        return self._kept

    @kept.setter
    def kept(self, kept: dict[bytes, bytes]) -> None:
        self._kept = Kept(kept)


def after(pool: Pool, request: m.Request) -> list[str]:
    return [type(one).__name__ for one in pool.say(m.encode_message(request))]


def served(pool: Pool) -> list[bytes]:
    return [wire for _, wire in pool.ask(m.Query(1, TKD)).messages]


def test_pool_on_a_full_disk_answers_takes_nothing_and_keeps_changes_when_there_is_room() -> None:
    pool = PoolOnDisk()
    for message in (OFFER, SHORT, ENDED):
        post(pool, message)
    client = greeted(pool)
    pool.kept.has_room = False
    before = dict(pool.kept)
    assert c.Warn(SAID) in pool.hear(c.Tick()) and c.Warn(SAID) not in pool.hear(c.Tick())
    # Requests are answered without the disk, at any door.
    [answer] = pool.say(m.encode_message(m.Query(1, TKD)))
    assert isinstance(answer, c.Send) and not answer.kept
    assert served(pool) == [one.encoded() for one in (ENDED, SHORT, OFFER)]
    assert pool.ask(m.Get(1, OFFER.own_id())).count == 1 and pool.ask(m.Info(1)).count == 3
    [reply] = client.say(PrefixQuery(5, 1, 0, 10, b"TKD\x0c"))
    assert isinstance(reply, MessagesReply) and reply.total == 3
    # Nothing is taken, and each sender gets the reason.
    told = pool.ask(m.Post(1, NEW.encoded()))
    assert told.result == Reason.DISK_FULL and "make room there" in told.text
    assert pool.ask(m.Post(1, OFFER.encoded())).held is Standing.RELAYED, "which is here"
    assert pool.ask(m.Watch(1, TKD, 60)).result == Reason.DISK_FULL
    assert after(pool, m.Rescind(1, SECRET)) == ["Refuse"]
    assert client.say(Inv((NEW.own_id(),), INV_TYPE)) == [], "it is not asked for"
    client.say(Msg((NEW,)))
    # Messages that expire, or that a neighbour rescinds, end at once.
    client.say(RescindSecrets((SECRET,)))
    pool.pass_time(31)
    assert served(pool) == [OFFER.encoded()] and pool.kept == before
    # With room again the ends are kept, and the new message is fetched.
    pool.kept.has_room = True
    assert c.Warn(ROOM_AGAIN) in pool.hear(c.Tick())
    assert len(pool.events("capd_rescinded")) == len(pool.events("capd_expired")) == 1
    assert [one.ids for one in client.take() if isinstance(one, GetMsg)] == [(NEW.own_id(),)], "announced meanwhile"
    pool.crash()
    assert served(pool) == [OFFER.encoded()] and post(pool, NEW) == 0


def test_read_question_answers_a_command_whose_node_takes_no_message() -> None:
    pool = PoolOnDisk()
    messages = [posted(b"TKD\x0c%d" % n + bytes(5_000), 4.0) for n in range(9)]
    for message in messages:
        post(pool, message)

    def read(request: m.Message) -> Any:
        body = b64encode(m.encode_message(request)).decode()
        [answer] = [one for one in pool.hear(c.Asked(1, "read", body)) if isinstance(one, c.Answer)]
        return m.decode_message(b64decode(answer.value["answer"])) if "answer" in answer.value else answer.value

    page = read(m.Query(3, TKD))
    assert (page.n, page.count) == (3, 9) and 0 < len(page.messages) < 9
    rest = read(m.Query(4, TKD, start=len(page.messages)))
    assert [wire for _, wire in (*page.messages, *rest.messages)] == [one.encoded() for one in messages[::-1]]
    assert read(m.Query(3, TKD, ids=True)).ids == tuple(one.own_id() for one in messages[::-1])
    assert read(m.Get(1, messages[0].own_id())).count == 1 and read(m.Info(1)).count == 9
    assert "needs no disk" in read(m.Post(1, OFFER.encoded()))["error"]
    [answer] = [one for one in pool.hear(c.Asked(1, "read", "?")) if isinstance(one, c.Answer)]
    assert "cannot be read" in answer.value["error"]
