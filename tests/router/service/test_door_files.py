"""What a service's door cannot be opened at, each with what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trio

from router.service.contract import Came
from router.service.doors import DoorError, Doors, door_urls
from router.transport.contract import Stream


async def _came(came: Came) -> None:
    raise AssertionError(came)


async def _no_router() -> Stream:
    raise AssertionError


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["tcp://:1"], "its doors() returned list; return a dict of names and URLs, {} for none"),
        (None, "its doors() returned NoneType; return a dict"),
        ({"desk": 4100}, "its doors() returned a dict with a str with int; give each door a name and a URL"),
    ],
)
def test_doors_are_names_and_urls(found: object, said: str) -> None:
    with pytest.raises(DoorError) as told:
        door_urls(found)
    assert str(told.value).startswith(said)
    assert door_urls({"desk": "tcp://:1"}) == {"desk": "tcp://:1"}


async def fault_at(home: Path, url: str) -> str:
    """Return why the door cannot be opened there; "" if it can."""
    said = ""
    async with trio.open_nursery() as nursery:
        try:
            await Doors(_came, print, _no_router, home).open(nursery, {"local": url})
        except DoorError as error:
            said = str(error)
        nursery.cancel_scope.cancel()
    return said


async def test_a_port_that_is_taken_is_named_as_it_was_configured(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = await fault_at(tmp_path, f"{url}?shared=yes")
    assert said.startswith(f'its door "local" cannot be opened at {url}: address already in use; another program')


async def test_what_is_in_the_way_is_named_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    begins = f'its door "local" cannot be opened at unix:{tmp_path}'
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(tmp_path / "living"))
        living.listen()
        assert await fault_at(tmp_path, f"unix:{tmp_path}/living") == (
            f"{begins}/living: address already in use; another program listens there: stop it, or name another place"
        )
    assert await fault_at(tmp_path, f"unix:{tmp_path}/living") == "", "it is stale by now, and replaced"
    assert await fault_at(tmp_path, f"unix:{tmp_path}/file") == (
        f"{begins}/file: file exists; that file is no socket: move it away, or name another place"
    )
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("mode=999", 'the mode "999" is not three digits from 0 to 7, as 660; name another place'),
        ("mode=rw", 'the mode "rw" is not three digits from 0 to 7'),
        ("mode=-60", 'the mode "-60" is not three digits from 0 to 7'),
        ("group=no such", 'there is no group "no such" on this machine'),
        ("mod=660", "it has the unknown option mod; write udp://HOST:PORT"),
    ],
)
async def test_wrong_options_are_named(options: str, said: str, tmp_path: Path) -> None:
    assert said in await fault_at(tmp_path, f"unix:door?{options}")
