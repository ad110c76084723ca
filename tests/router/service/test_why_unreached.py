"""Why a program that is dialled is not reached, in words."""

from __future__ import annotations

import errno
import os

import pytest

from router.service.unreached import why_from


@pytest.mark.parametrize(
    ("number", "source", "said"),
    [
        (
            errno.EINVAL,
            "127.0.0.1:9",
            "nothing but this machine is reached from 127.0.0.1:9, an address of it alone",
        ),
        (errno.EINVAL, "", "invalid argument"),
        (errno.EINVAL, "10.0.0.1:3141", "invalid argument"),
        (errno.ECONNREFUSED, "127.0.0.1:9", "connection refused"),
    ],
)
def test_stream_from_an_address_of_this_machine_alone_is_said_to_reach_no_other(
    number: int, source: str, said: str
) -> None:
    assert why_from(OSError(number, os.strerror(number)), source) == said
