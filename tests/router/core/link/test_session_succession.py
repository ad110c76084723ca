"""A router comes by a new key, or answers by one: a link whose hello shows whose place it takes, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace
from rigs.session_pair import exchange, offer
from samples.core import ALICE, BOB, GROUP

from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Session, Up, Welcome
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.succession import Former, formers, make_succession

NEW, NEWER = SigningKey(b"n" * 32), SigningKey(b"w" * 32)
NOW_S = 1_800_000_000


def chain(*keys: SigningKey) -> tuple[Former, ...]:
    return formers(make_succession(old, new, NOW_S, NOW_S + 9) for old, new in pairwise(keys))


def links(
    was: tuple[Former, ...], by: SigningKey, expect: SigningKey, *, proven: bool
) -> tuple[list[object], list[object]]:
    """Return the events where Alice dials `expect`, and `by` answers with such a hello."""
    dialler = Session(offer(), ALICE, dialler=True, peer=by.public if proven else None, expect=expect.public)
    listener = Session(replace(offer(), was=was), by, dialler=False, peer=ALICE.public if proven else None)
    return exchange(dialler, listener)


@pytest.mark.parametrize("proven", [True, False])
def test_one_that_answers_by_a_new_key_is_let_in_if_it_shows_that_it_follows_the_dialled_one(proven: bool) -> None:
    for was, by in ((chain(BOB, NEW), NEW), (chain(GROUP, BOB, NEW, NEWER), NEWER)):
        [up] = [one for one in links(was, by, BOB, proven=proven)[0] if isinstance(one, Up)]
        assert up.peer == by.public and up.hello.was == was
    forged = (replace(chain(BOB, NEW)[0], new_signature=chain(BOB, NEW)[0].old_signature),)
    for was in ((), chain(GROUP, NEW), chain(BOB, NEWER), forged):
        with pytest.raises(RemoteProtocolError, match="shows no succession") as error:
            links(was, NEW, BOB, proven=proven)
        assert error.value.reason is Reason.NOT_AUTHORISED


def judged(known: SigningKey, found: Welcome | None = None) -> Callable[[PublicKey], Welcome | None]:
    """Return a judge that lets in one key alone."""
    return lambda key: Welcome() if key == known.public else found


def comes(was: tuple[Former, ...], by: SigningKey, judge: Callable[[PublicKey], Welcome | None]) -> Session:
    dialler = Session(replace(offer(), was=was), by, dialler=True, peer=ALICE.public, expect=ALICE.public)
    listener = Session(offer(), ALICE, dialler=False, peer=by.public, welcome=judge)
    exchange(dialler, listener)
    return listener


def test_one_that_follows_a_key_that_is_let_in_comes_up_as_a_stranger() -> None:
    """Whoever decides about links moves what the old key has; until then it has no rights."""
    assert comes(chain(BOB, NEW), NEW, judged(BOB)).is_stranger
    assert comes(chain(BOB, NEW), NEW, judged(BOB, Welcome(refused="no"))).is_stranger
    assert not comes(chain(BOB, NEW), NEW, judged(NEW)).is_stranger
    for was, judge in (
        ((), judged(BOB)),
        (chain(GROUP, NEW), judged(BOB)),
        (chain(BOB, NEWER), judged(BOB)),
        (chain(BOB, NEW), judged(GROUP)),
        (chain(BOB, NEW), lambda key: Welcome(is_stranger=True) if key == BOB.public else None),
    ):
        with pytest.raises(RemoteProtocolError):
            comes(was, NEW, judge)


def test_key_that_another_has_the_place_of_is_told_so_also_where_it_answers_in_place_of_the_dialled_one() -> None:
    """Its home was restored from a snapshot of before the renewal; whom it had followed before that makes it nothing
    else."""

    def judge(key: PublicKey) -> Welcome:
        return Welcome(refused="renewed", reason=Reason.RENEWED) if key == BOB.public else Welcome()

    for was in ((), chain(GROUP, BOB)):
        dialler = Session(offer(), ALICE, dialler=True, peer=BOB.public, expect=NEW.public, welcome=judge)
        listener = Session(replace(offer(), was=was), BOB, dialler=False, peer=ALICE.public)
        with pytest.raises(RemoteProtocolError, match="renewed") as error:
            exchange(dialler, listener)
        assert error.value.reason is Reason.RENEWED
