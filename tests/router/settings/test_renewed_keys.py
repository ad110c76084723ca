"""The renewal of a kept key on the disk: begun once, finished once, whatever ends the process in between."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from router.core.wire.crypto import SigningKey
from router.core.wire.renewal import READ_S, Renewal, make_renewal
from router.settings import keyring, renewed_keys
from router.settings.renewed_keys import RenewalError

NOW_S = 1_800_000_000
STEPS = ("link", "rename", "unlink", "fsync")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    keyring.load_or_create(tmp_path, "laptop")
    return tmp_path / "keys"


def begin(keys: Path) -> Renewal:
    return renewed_keys.begin(keys, "laptop", partial(keyring.load, keys.parent, "laptop"), NOW_S)


def finish(keys: Path) -> None:
    """Finish the renewal that has begun, as the node does that has taken it."""
    renewed_keys.finish(keys, "laptop", renewed_keys.begun(keys)["laptop"])


def files(keys: Path) -> list[str]:
    return sorted(one.name for one in keys.iterdir())


def test_a_renewal_begins_beside_the_old_key_and_takes_its_place_at_the_end(keys: Path) -> None:
    old = keyring.load(keys.parent, "laptop")
    said = begin(keys)
    assert (said.old, said.from_s, said.until_s) == (old.public, NOW_S, NOW_S + READ_S) and said.verify()
    assert keyring.load(keys.parent, "laptop").public == old.public and keyring.names(keys.parent) == ["laptop"]
    assert begin(keys) == said and renewed_keys.begun(keys) == {"laptop": said}, "the same one goes on"
    assert stat.S_IMODE((keys / "laptop.renewing").stat().st_mode) == 0o600
    finish(keys)
    assert keyring.load(keys.parent, "laptop").public == said.new and files(keys) == ["laptop.key", "laptop.renewed"]
    assert old.seed.hex() not in "".join(one.read_text() for one in keys.iterdir()), "the old key is gone"
    renewed_keys.finish(keys, "laptop", said)
    assert keyring.load(keys.parent, "laptop").public == said.new, "once more changes nothing"


def test_addresses_of_the_past_have_the_name_of_today(keys: Path) -> None:
    olds = []
    for _ in range(3):
        olds.append(begin(keys).old)
        finish(keys)
    assert keyring.former_addresses(keys.parent) == dict.fromkeys(olds, "laptop")
    assert {bytes(one) for one in olds} < keyring.key_names(keys.parent).keys()


def test_what_the_node_refuses_is_given_up(keys: Path) -> None:
    said = begin(keys)
    renewed_keys.give_up(keys, "laptop", said)
    assert files(keys) == ["laptop.key"] and begin(keys) != said


def test_only_the_renewal_that_the_node_has_taken_is_finished_and_only_the_one_it_has_refused_is_given_up(
    keys: Path,
) -> None:
    """Of several commands at once, one is late: it still holds what the files said before another one finished."""
    old = keyring.load(keys.parent, "laptop")
    first = begin(keys)
    finish(keys)
    second = begin(keys)
    assert second.old == first.new, "the key is read again once the files are held"
    renewed_keys.finish(keys, "laptop", first)
    renewed_keys.give_up(keys, "laptop", first)
    assert keyring.load(keys.parent, "laptop").public == first.new and renewed_keys.begun(keys) == {"laptop": second}
    late = make_renewal(old, SigningKey(b"x" * 32), NOW_S, NOW_S + READ_S)
    renewed_keys.finish(keys, "laptop", late)
    assert renewed_keys.begun(keys) == {"laptop": second}


def test_a_renewal_of_another_key_than_the_one_that_is_there_changes_nothing(keys: Path) -> None:
    said = begin(keys)
    other = SigningKey(b"x" * 32)
    (keys / "laptop.key").write_text(other.seed.hex() + "\n")
    for act in (begin, lambda keys: renewed_keys.finish(keys, "laptop", said)):
        with pytest.raises(RenewalError, match=r"laptop\.renewing renews another key than the one that has this name"):
            act(keys)
    assert keyring.load(keys.parent, "laptop").public == other.public


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Do it in a process that is killed before its `step`-th call that changes the disk; return whether it was."""
    child = os.fork()
    if not child:
        count = 0

        def counted(real: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **more: object) -> object:
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **more)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_before_any_step_it_has_not_begun_or_goes_on_to_its_end(keys: Path) -> None:
    for act in (begin, finish):
        step = 1
        while True:
            old = keyring.load(keys.parent, "laptop").public
            before = renewed_keys.begun(keys)
            was_killed = killed_at(step, lambda act=act: act(keys))  # type: ignore[misc]
            now = keyring.load(keys.parent, "laptop").public
            after = renewed_keys.begun(keys)
            if act is begin:
                assert now == old and (not after or after["laptop"].old == old)
            elif was_killed:
                assert now == before["laptop"].new if not after else after == before, "it can be finished"
            finish(keys) if after else None
            assert keyring.load(keys.parent, "laptop").public == (after["laptop"].new if after else now)
            if not was_killed:
                break
            if act is not begin:
                begin(keys)
            step += 1
        assert step > 3, "it was killed before each of several steps"
        begin(keys)


@pytest.mark.parametrize("line", [b"", b"x\n", b"00" * 32 + b" 80\n", b"00" * 32 + b"\n", bytes(900)])
def test_a_damaged_one_is_named_and_shows_no_key(keys: Path, line: bytes) -> None:
    begin(keys)
    seed = (keys / "laptop.renewing").read_bytes()[:64]
    (keys / "laptop.renewing").write_bytes(line if line else seed)
    with pytest.raises(RenewalError, match=r"laptop\.renewing should hold a renewal that has begun") as caught:
        renewed_keys.begun(keys)
    assert seed.decode() not in str(caught.value)


def test_one_that_others_can_read_or_that_is_of_another_key_is_refused(keys: Path) -> None:
    said = begin(keys)
    path = keys / "laptop.renewing"
    path.chmod(0o644)
    with pytest.raises(RenewalError, match="can be read by others"):
        renewed_keys.begun(keys)
    path.chmod(0o600)
    path.write_text(SigningKey(b"x" * 32).seed.hex() + path.read_text()[64:])
    with pytest.raises(RenewalError, match="should hold a renewal"):
        renewed_keys.finish(keys, "laptop", said)


def test_without_room_or_rights_the_sentence_says_so(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("router.disk.private_file.create", full)
    with pytest.raises(RenewalError, match="No space left on device; see that there is room"):
        begin(keys)


def test_a_renewal_at_the_node_of_another_home_is_taken_by_none_of_this_one(keys: Path) -> None:
    elsewhere, load = renewed_keys.ELSEWHERE, partial(keyring.load, keys.parent, "laptop")
    said = renewed_keys.begin(keys, "laptop", load, NOW_S, elsewhere)
    assert renewed_keys.begin(keys, "laptop", load, NOW_S + 5, elsewhere) == said and not renewed_keys.begun(keys)
    with pytest.raises(RenewalError, match=r"has begun already; finish it: repeat the command with the --url"):
        renewed_keys.begin(keys, "laptop", load, NOW_S)
    renewed_keys.finish(keys, "laptop", said, elsewhere)
    assert renewed_keys.statements(keys, "laptop") == [said] and not (keys / f"laptop.{elsewhere}").exists()
    renewed_keys.begin(keys, "laptop", load, NOW_S)
    with pytest.raises(RenewalError, match="without --url, while the node runs"):
        renewed_keys.begin(keys, "laptop", load, NOW_S, elsewhere)
