"""Prekeys of apps: what is sealed to one is opened by its owner alone, also after a restart."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from router.client.options import state_of
from router.client.prekeys import KEPT_MAX, Prekeys, SealedContent, SealedError
from router.client.sealing.own_prekeys import OwnPrekeys
from router.core.wire.prekey import decode_prekey
from router.disk.state.app_rows import AppBatch
from router.settings import keyring
from router.settings.home import Home


def homes(base: Path) -> tuple[Path, Path]:
    found = base / "alice", base / "bob"
    for one in found:
        Home(one).create()
    return found


def test_what_is_sealed_to_a_prekey_is_opened_by_its_owner_after_a_restart(tmp_path: Path) -> None:
    alice, bob = homes(tmp_path)
    prekey = Prekeys("wallet", home=alice).current()
    assert Prekeys("wallet", home=alice).current() == prekey and len(prekey) < 150
    bodies = [Prekeys("wallet", home=bob).seal(prekey, b"link %d" % number) for number in range(2)]
    sender = keyring.load_or_create(Home(bob), "wallet").public
    again = Prekeys("wallet", home=alice)
    assert [again.open(one) for one in bodies] == [SealedContent(sender, b"link 0"), SealedContent(sender, b"link 1")]
    assert b"link" not in bodies[0] and "link" not in repr(again.open(bodies[0]))
    assert (alice / "apps" / "wallet.state" / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_the_newest_prekeys_can_be_opened_and_no_others(tmp_path: Path) -> None:
    alice, bob = homes(tmp_path)
    mine, others = Prekeys("a", home=alice), Prekeys("b", home=bob)
    bodies = [others.seal(mine.renew(), b"x") for _ in range(KEPT_MAX + 1)]
    for body in bodies[1:]:
        assert mine.open(body).content == b"x"
    with pytest.raises(SealedError, match="not ours, or no longer"):
        mine.open(bodies[0])
    with pytest.raises(SealedError, match="not ours, or no longer"):
        others.open(bodies[1])


def test_a_copy_of_the_home_opens_nothing_that_was_sealed_to_a_prekey_that_has_gone(tmp_path: Path) -> None:
    """Neither the secret of the prekey nor the key that had sealed it lies in any file, not even in freed pages."""
    alice, bob = homes(tmp_path)
    mine = Prekeys("a", home=alice, entropy=lambda n: (b"seed %02d " % len(made)) * 4)
    made: list[bytes] = []
    for _ in range(KEPT_MAX + 3):
        made.append(mine.renew())
        if len(made) == 3:
            key = (alice / "apps" / "a.state" / "secrets.key").read_bytes().split()[-1]
    body = Prekeys("b", home=bob).seal(made[2], b"x")
    copy = Path(shutil.copytree(alice, tmp_path / "copy"))
    with pytest.raises(SealedError, match="not ours, or no longer"):
        Prekeys("a", home=copy).open(body)
    assert Prekeys("a", home=copy).open(Prekeys("b", home=bob).seal(made[3], b"x")).content == b"x"
    found = b"".join(one.read_bytes() for one in copy.rglob("*") if one.is_file())
    assert b"seed " not in found and key not in found and bytes.fromhex(key.decode()) not in found


def test_what_was_changed_or_is_nothing_of_the_kind_is_not_taken(tmp_path: Path) -> None:
    alice, bob = homes(tmp_path)
    mine, others = Prekeys("a", home=alice), Prekeys("b", home=bob)
    prekey = mine.current()
    for wrong in (b"", prekey[:-1], prekey[:-1] + bytes([prekey[-1] ^ 1])):
        with pytest.raises(SealedError, match="nothing can be sealed to this"):
            others.seal(wrong, b"x")
    body = others.seal(prekey, b"x")
    for wrong in (b"", body[:-1], body[:-1] + bytes([body[-1] ^ 1])):
        with pytest.raises(SealedError, match="cannot be opened"):
            mine.open(wrong)
    path = alice / "apps" / "a.state" / "secrets.key"
    line = path.read_bytes()
    path.write_bytes(b"short")
    with pytest.raises(SealedError, match="is not the key that has sealed them; restore"):
        mine.current()
    path.write_bytes(line)
    path.chmod(0o644)
    with pytest.raises(SealedError, match="chmod 600"):
        mine.open(body)


def test_current_makes_a_prekey_a_day_which_the_running_app_shares(tmp_path: Path) -> None:
    alice, _ = homes(tmp_path)
    mine = Prekeys("a", home=alice)
    first = mine.current()
    state = state_of(Home(alice), "a")
    [(key, value)] = state.rows("prekeys")
    batch = AppBatch()
    batch.put("prekeys", key, (int(time.time()) - 90_000).to_bytes(8, "big") + value[8:], secret=True)
    state.commit(batch)
    second = mine.current()
    assert second not in (first, b"") and mine.current() == second
    own = OwnPrekeys(keyring.load(Home(alice), "a"), state.rows("prekeys"))
    newest = own.current()
    assert len(own) == 2 and newest is not None and newest.prekey.id == decode_prekey(second).id
    state.close()
