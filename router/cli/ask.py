"""Asks the running node over its owner's socket, as a throwaway app: one inquiry, one answer."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import trio

from router import transport
from router.cli.exits import Exit, Failure
from router.core.codec import Malformed, frame
from router.core.crypto import SigningKey
from router.core.inquiry import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.lifetime import expiry_min
from router.core.machine import RemoteProtocolError
from router.core.message import open_message, seal_unicast
from router.core.session import Ended, Messages, Offer, Session
from router.home import Home
from router.transport import ConnectFailed, Stream, StreamBroken

ANSWER_S_MAX = 10.0
READ_BYTES_MAX = 1 << 18
LIFE_S = 3600


def ask(home: Home, word: str, argument: str = "") -> Any:
    """The node's answer, decoded JSON. `Failure`: no node runs, it is silent, or it answered with an error."""
    return trio.run(_asked, home, Inquiry(word, argument), SigningKey(os.urandom(32)))


def ask_peers(home: Home) -> list[dict[str, Any]]:
    """The node's neighbours and apps, without this one."""
    key = SigningKey(os.urandom(32))
    found = trio.run(_asked, home, Inquiry("peers"), key)
    return [one for one in found if one["address"] != key.public.hex()]


async def _asked(home: Home, inquiry: Inquiry, key: SigningKey) -> Any:
    try:
        with trio.fail_after(ANSWER_S_MAX):
            stream = await transport.dial(f"unix://{home.socket_path}", key, None, timeout_s=ANSWER_S_MAX)
            try:
                text = await _exchange(stream, key, inquiry)
            finally:
                with trio.CancelScope(deadline=0):
                    await stream.aclose()
    except ConnectFailed as error:
        raise Failure(Exit.NO_NODE, error.text) from None
    except trio.TooSlowError:
        said = f"the node on {home.path} has not answered within {ANSWER_S_MAX:g} s"
        raise Failure(Exit.TIMED_OUT, f"{said}; it is too busy or hangs") from None
    except (StreamBroken, RemoteProtocolError, Malformed) as error:
        raise Failure(Exit.NO_NODE, f"the node on {home.path} broke off: {error}; is it stopping?") from None
    answer = json.loads(text)
    if isinstance(answer, dict) and "error" in answer:
        raise Failure(Exit.FAILED, str(answer["error"]))
    return answer


async def _exchange(stream: Stream, key: SigningKey, inquiry: Inquiry) -> bytes:
    offer = Offer("app", bytes(8), False, 64, 4 << 20, os.urandom(16), name="router")
    session = Session(offer, key, dialler=True, peer=stream.peer)
    asked = False
    while True:
        await stream.send_parts(session.output())
        if session.is_open and not asked:
            assert session.peer is not None
            body = encode_inquiry(inquiry)
            life = expiry_min(time.time() + LIFE_S)
            await stream.send_all(frame(seal_unicast(key, session.peer, body, ttl_s=0, expiry_min=life)))
            asked = True
        data = await stream.receive_some(READ_BYTES_MAX)
        if not data:
            raise StreamBroken("it closed the connection")
        for event in session.receive(data, trio.current_time()):
            if isinstance(event, Ended):
                raise StreamBroken(event.text or event.reason.sentence)
            if isinstance(event, Messages):
                _, start, end = event.spans[0]
                answer = decode_inquiry(open_message(event.data[start:end]).body)
                if isinstance(answer, Answer):
                    return answer.text
