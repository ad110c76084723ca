"""A service's state on a disk that is really full: reported as such, and whole when there is room again."""

from __future__ import annotations

import sys
from pathlib import Path

from rigs.small_disk import on_a_small_disk

from router.disk.state.service_state import State
from router.service.contract import has_room

FILL = """
import sys
from pathlib import Path
from router.disk.state.environment import StateError
from router.disk.state.service_state import Batch, State

state, kept = State(Path("full/services/hungry")), 0
spare = Path("full/spare")
spare.write_bytes(bytes(300_000))
while True:
    try:
        state.commit(Batch(kept={b"%d" % kept: b"x" * 20_000}), 0)
        kept += 1
    except StateError as error:
        said = str(error)
        break
spare.unlink()
state.commit(Batch(kept={b"%d" % kept: b"x" * 20_000}), 0)
whole = all(state[b"%d" % n] == b"x" * 20_000 for n in range(kept + 1))
print(said, kept > 10, len(state) == kept + 1, whole, file=sys.stderr)
"""


def test_a_full_disk_is_called_that_and_nothing_of_the_state_is_lost(tmp_path: Path) -> None:
    script = tmp_path / "fill.py"
    script.write_text(FILL)
    lines = on_a_small_disk(tmp_path, f"{sys.executable} {script}")
    assert lines[0] == (
        "the state in full/services/hungry cannot be written: its disk is full; make room, and the service goes on "
        "where it stopped True True True"
    )
    assert lines[1] == "code 0"


def test_a_state_has_room_while_more_is_free_than_it_must_leave(tmp_path: Path) -> None:
    for least, expected in ((0, True), (1 << 60, False)):
        state = State(tmp_path / str(least), least)
        assert has_room(state) is expected
        state.close()
    assert has_room({}), "which is on no disk"
