"""Rounds of `kill -9` on a CAPD pool that writes to a real disk: `python -m rigs.killed_pool DIRECTORY ROUNDS SEED`.

Each round, a forked process opens the pool's state, receives posts, commits their deeds as the host of a service does,
and only then answers. It is killed at a random moment. Then the state is checked: each answered post is there, each
match of a standing query was sent exactly once, and the log reports each message once. Unanswered posts are repeated in
the next round.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from samples.capd import posted

from router.core.wire.crypto import MessageId, SigningKey
from router.disk.state.service_state import Batch, State
from router.service import contract as c
from router.service.deed_checks import event_of
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage
from services.capd.core.pattern import Pattern
from services.capd.events import EVENTS
from services.capd.rules import CapdPool
from services.capd.settings import Settings

POSTS = 25
POOL, ALICE, BOB = (SigningKey(bytes((number,)) * 32).public for number in range(3))
WATCHED = b"TKD\x0c"
MOMENT_S = 0.05


class Life:
    """A pool from its start until it is killed."""

    def __init__(self, path: Path) -> None:
        self.state = State(path)
        self.rules = CapdPool(c.Setup("capd", POOL, Settings(), self.state, Random(1)))
        self.hear(c.Started(POOL))

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        """Pass an event to the rules, and commit their deeds in one transaction."""
        now_s = time.time()
        deeds = [*self.rules.hear(heard, c.Now(now_s, now_s)), *self.rules.settled(c.Now(now_s, now_s))]
        batch = Batch()
        for deed in deeds:
            if isinstance(deed, c.Put):
                batch.kept[deed.key] = deed.value
            elif isinstance(deed, c.LogEvent):
                batch.events.append(event_of(deed, frozenset(EVENTS)))
            elif isinstance(deed, c.Send) and isinstance(m.decode_message(deed.body), m.Match):
                batch.outbox.append(("", deed.body))
        if isinstance(heard, c.Message):
            batch.heard.append((heard.id, int(now_s) // 60 + 60))
        self.state.commit(batch, int(now_s) // 60)
        return deeds

    def ask(self, request: m.Request, asker: bytes = ALICE) -> m.Message:
        own_id = MessageId(os.urandom(32))
        deeds = self.hear(c.Message(own_id, m.encode_message(request), source=type(ALICE)(asker)))
        answers = (m.decode_message(one.body) for one in deeds if isinstance(one, c.Send) and one.to == asker)
        return next(one for one in answers if not isinstance(one, m.Match))


def serve(path: Path, messages: list[CapdMessage], out: int) -> None:
    """Answer posts, and write the id of each one that is answered."""
    life = Life(path)
    os.write(out, b"." * 32)
    life.ask(m.Watch(1, Pattern.prefix(WATCHED), 100_000), BOB)
    for message in messages:
        answer = life.ask(m.Post(2, message.encoded()))
        assert isinstance(answer, m.PostAnswer) and answer.result == 0, answer
        os.write(out, answer.id)


def killed(path: Path, messages: list[CapdMessage], chance: Random) -> set[bytes]:
    """Let a process serve, kill it at a random moment, and return the ids that it has answered."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.close(reading)
        serve(path, messages, writing)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        begun = pipe.read(32 * chance.randrange(1, len(messages) + 1))
        time.sleep(chance.random() * MOMENT_S / POSTS)  # somewhere in what a post takes
        os.kill(pid, signal.SIGKILL)
        said = begun + pipe.read()
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) or status == 0, f"the pool has ended with {status}"
    return {said[at : at + 32] for at in range(32, len(said) // 32 * 32, 32)}


def check(path: Path, answered: dict[bytes, CapdMessage], everything: dict[bytes, CapdMessage]) -> None:
    """Compare the state with the promises made by answers."""
    life = Life(path)
    found = life.ask(m.Query(1, Pattern.prefix(b""), True, 0, m.PAGE_IDS_MAX))
    assert isinstance(found, m.FoundIds) and found.count == len(found.ids)
    held = set(found.ids)
    assert answered.keys() <= held <= everything.keys(), f"{len(answered.keys() - held)} answered posts are lost"
    told = Counter(m.decode_message(body).message for _, _, body in life.state.outbox())  # type: ignore[union-attr]
    watched = {everything[one].encoded() for one in held if everything[one].data.startswith(WATCHED)}
    assert told == Counter(watched), "each match is told of once"
    _, events = life.state.events(1 << 30)
    accepted = Counter(one for one in events if b'"capd_accepted"' in one)
    assert len(accepted) == len(held), "each message is told of once in the log"
    life.state.close()


def main(path: Path, rounds: int, seed: int) -> None:
    chance = Random(seed)
    everything: dict[bytes, CapdMessage] = {}
    answered: dict[bytes, CapdMessage] = {}
    open_posts: list[CapdMessage] = []
    for number in range(rounds):
        born = int(time.time()) - 5
        while len(open_posts) < POSTS:
            data = chance.choice((WATCHED, b"other")) + b" %d %d" % (number, len(everything))
            message = posted(data, 2.1, born)
            everything[message.own_id()] = message
            open_posts.append(message)
        done = killed(path, open_posts, chance)
        answered |= {one: everything[one] for one in done}
        open_posts = [one for one in open_posts if one.own_id() not in answered]
        check(path, answered, everything)
    print(f"{rounds} rounds, {len(answered)} posts answered, none lost")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
