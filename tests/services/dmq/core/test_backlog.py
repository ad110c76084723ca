"""A node that was away for ten minutes, with a clock of the test's own: when it has the newest message of each pool."""

from __future__ import annotations

from samples.dmq import BODY, NOW, Pool

from services.dmq.core.mempool import Mempool, MempoolLimits, Row
from services.dmq.core.messages.authentication import Moment
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.peers.fetching import AskIds, Fetching
from services.dmq.core.peers.provider import Provider, Spacing

DMQ = Dmq05()
AWAY_S, PAUSE_S, EVERY_S = 600, 60, 62
"""How long the node is away, the pause of a pool, and how often each pool speaks, in seconds."""
NEWEST_WITHIN_S = 65
MANY = [Pool(number) for number in range(40, 46)]


class Speakers:
    """Pools that hand a message in every `EVERY_S`, and the node that holds what is live. `newest`: of each pool, when
    its latest message was handed in, and that."""

    def __init__(self, lives_s: int = 900) -> None:
        self.lives_s = lives_s
        self.mempool = Mempool(MempoolLimits(pause_s=0))
        self.newest: dict[bytes, tuple[int, SignedMessage]] = {}
        self.expired: list[Row] = []
        self.messages: list[SignedMessage] = []

    def at(self, second: int, *, speaks: bool = True) -> Moment:
        """Let a second come."""
        now = Moment(NOW.wall_s + second, NOW.mono_s + second)
        self.expired = self.mempool.expire(now.wall_s)
        for pool in MANY if speaks and second % EVERY_S == 0 else ():
            draft = pool.draft(
                pool.id[:4] + second.to_bytes(2, "big") + BODY, expires_at=int(now.wall_s) + self.lives_s
            )
            message = DMQ.read(DMQ.write(draft))
            self.mempool.take(message, now.wall_s + self.lives_s, now, is_relayed=False)
            self.newest[pool.id] = second, message
            self.messages.append(message)
        return now


class StrictNode:
    """A consumer that refuses the second message of a pool within `PAUSE_S`, as dmq-node 0.7, which cuts off whoever
    brought it. It asks as soon as it may. `had`: when it has got each message, by id."""

    def __init__(self) -> None:
        self.had: dict[bytes, int] = {}
        self._accepted_s: dict[bytes, int] = {}
        self._unacknowledged = 0

    def ask(self, provider: Provider, now: Moment, second: int) -> None:
        while True:
            if provider.is_asked:
                told = provider.wake(now)
            else:
                told = provider.request_ids(True, self._unacknowledged, 33, now)
                self._unacknowledged = 0
            if not told:
                return
            self._unacknowledged = len(told)
            for row in provider.request_bodies([one.id for one in told], now):
                assert second - self._accepted_s.get(row.pool, -PAUSE_S) >= PAUSE_S, "it cuts the provider off"
                self._accepted_s[row.pool] = second
                self.had[row.id] = second


def test_a_strict_node_has_each_pools_newest_message_in_time_and_cuts_nobody_off() -> None:
    """The pools go on speaking while it is back; it is never behind the newest of a pool for more than 65 s."""
    speakers, node = Speakers(), StrictNode()
    provider = Provider(speakers.mempool, Spacing(PAUSE_S))
    for second in range(AWAY_S):
        speakers.at(second)
    for second in range(AWAY_S, 2 * AWAY_S):
        now = speakers.at(second)
        provider.expired(speakers.expired, now.mono_s)
        node.ask(provider, now, second)
        for pool in MANY:
            since, message = speakers.newest[pool.id]
            if second - max(since, AWAY_S) >= NEWEST_WITHIN_S:
                assert message.id in node.had
        if second == AWAY_S:
            assert sorted(node.had) == sorted(message.id for _, message in speakers.newest.values())
    assert len(node.had) + provider.spaced_out <= len(speakers.messages)
    live = {row.id for row in speakers.mempool.after(0)}
    lost = [message for message in speakers.messages if message.id not in node.had and message.id not in live]
    assert provider.spaced_out == len(lost) > 0, "what expires before its turn is counted"


def test_a_node_of_ours_has_all_that_one_without_spacing_holds_at_once_and_that_stays_connected() -> None:
    """As from dmq-node 0.7, which tells its backlog oldest first: each message is taken, whatever its pool's pause."""
    speakers = Speakers()
    for second in range(AWAY_S):
        speakers.at(second)
    provider = Provider(speakers.mempool, Spacing(0))
    own, now = Mempool(MempoolLimits(pause_s=PAUSE_S)), speakers.at(AWAY_S, speaks=False)
    fetching, by_id = Fetching(own), {message.id: message for message in speakers.messages}
    fetching.begin("peer")
    while asks := fetching.requests(now.mono_s):
        for ask in asks:
            if isinstance(ask, AskIds):
                told = provider.request_ids(ask.blocking, ask.acknowledged, ask.most, now)
                if told is not None:
                    fetching.announced("peer", [(one.id, one.size) for one in told])
                continue
            given = [by_id[row.id] for row in provider.request_bodies(ask.ids, now)]
            for message in fetching.delivered("peer", given):
                assert own.judge(message, now, is_relayed=True) is None
                own.take(message, now.wall_s + speakers.lives_s, now, is_relayed=True)
                fetching.taken(message.id)
    assert sorted(row.id for row in own.after(0)) == sorted(by_id) and len(by_id) == 10 * len(MANY)


def test_a_backlog_of_pools_that_have_fallen_silent_comes_whole_newest_first() -> None:
    """A message of each pool every 62 s."""
    speakers, node = Speakers(lives_s=1700), StrictNode()
    for second in range(AWAY_S):
        speakers.at(second)
    provider = Provider(speakers.mempool, Spacing(PAUSE_S))
    for second in range(AWAY_S, AWAY_S + 9 * EVERY_S + 1):
        node.ask(provider, speakers.at(second, speaks=False), second)
    for pool in MANY:
        handed_in = [one.id for one in speakers.messages if one.certificate.pool == pool.id]
        assert [own_id for own_id in node.had if own_id in handed_in] == handed_in[::-1]
