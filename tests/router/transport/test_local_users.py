"""The user at the other end of a TCP connection on loopback, as Linux tells it."""

from __future__ import annotations

import os
import socket
import struct
import sys

import pytest
import trio
from trio.socket import SocketType

from router.transport.entrance import Entrance
from router.transport.limits import HandshakeLimits
from router.transport.local_users import USERS_OF_A_RANGE, _name_of, _question, _user_in, user_on_loopback
from router.transport.socket_stream import TcpStream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")


@pytest.mark.parametrize(
    ("family", "host", "dialled"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"), (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)  # fmt: skip
def test_it_is_known_while_a_process_has_the_other_end(family: int, host: str, dialled: str) -> None:
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip("no such address here")
        listener.listen()
        with socket.create_connection((dialled, listener.getsockname()[1])) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert user_on_loopback(accepted) == _name_of(os.geteuid()) == user_on_loopback(client)
                client.close()
                assert user_on_loopback(accepted) == "", "Linux says root of one that nobody has any more"
        assert user_on_loopback(listener) == "", "it has no other end"


async def test_what_shares_the_place_of_a_link_on_loopback_is_one_user() -> None:
    """For the ban of a stranger that forges, which holds for the strangers of its place."""

    async def shake_hands(sock: SocketType, where: str) -> TcpStream:
        return TcpStream(sock, where, sock.getpeername()[0])

    entrance = Entrance(shake_hands, b"", HandshakeLimits(), lambda key: False)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        accepted = trio.socket.from_stdlib_socket(listener.accept()[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(entrance.places.run)
            stream = await entrance.admit(accepted, "here")
            assert stream.place == f"127.0.0.0/24 ({_name_of(os.geteuid())})"
            await stream.aclose()
            nursery.cancel_scope.cancel()


def test_an_answer_names_the_user_of_a_socket_that_a_process_has() -> None:
    def answer(kind: int, user: int, inode: int) -> bytes:
        told = bytes(4 + 48 + 12) + struct.pack("=II", user, inode)
        return struct.pack("=IHHII", 16 + len(told), kind, 0, 0, 0) + told

    assert _user_in(answer(20, 1000, 7)) == 1000
    assert _user_in(answer(20, 0, 0)) is None and _user_in(answer(2, 1000, 7)) is None and _user_in(b"") is None


def test_subordinate_users_of_one_user_count_together() -> None:
    assert [_name_of(one) for one in (0, 1000, 65_535)] == ["user 0", "user 1000", "user 65535"]
    assert _name_of(100_000) == _name_of(131_071) == "users 65536 to 131071"
    assert _name_of(USERS_OF_A_RANGE * 2) == "users 131072 to 196607"


def test_the_question_is_the_kernels_structure() -> None:
    """`struct inet_diag_req_v2` of linux/inet_diag.h has 56 bytes, behind a head of 16."""
    asked = _question(socket.AF_INET, ("127.0.0.1", 0x1234), ("127.0.0.2", 0x5678))
    assert struct.unpack_from("=IHH", asked) == (72, 20, 1) and len(asked) == 72
    assert asked[16:18] == bytes((socket.AF_INET, 6)) and asked[24:28] == bytes.fromhex("12345678")
    assert asked[28:32] == bytes((127, 0, 0, 1)) and asked[44:48] == bytes((127, 0, 0, 2))
