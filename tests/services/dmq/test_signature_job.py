"""A batch of checks in another process: the same faults as at once, in order."""

from __future__ import annotations

import pytest
import trio
from msgspec.structs import replace
from rigs.patience import HANG_S
from samples.dmq import BODY, NOW, POOLS, altered, authentication

from router.service.jobs import Jobs
from services.dmq.core.messages.fault import Fault
from services.dmq.core.messages.signatures import SignatureCheck, SignatureChecker
from services.dmq.core.messages.signed_message import Cip29ffe0e, Dmq05
from services.dmq.signature_job import encode_batch, faults, verify_batch


def checks() -> list[SignatureCheck]:
    found = []
    for encoding in (Dmq05(), Cip29ffe0e()):
        for pool in POOLS:
            message = encoding.read(encoding.write(pool.draft(BODY * 2)))
            check = replace(authentication(encoding).signature_check(message, NOW), evolutions=(1, 0))
            wrong = altered(message.certificate, issue_number=5).packed
            found += [check, replace(check, signed=b"x"), replace(check, certificate=wrong)]
    return found


EXPECTED = [None, Fault.BAD_SIGNATURE, Fault.BAD_CERTIFICATE] * 6


def test_a_batch_is_verified_as_one_by_one() -> None:
    one_by_one = SignatureChecker()
    assert [one_by_one.fault(check) for check in checks()] == EXPECTED
    assert faults(verify_batch(encode_batch(checks()))) == EXPECTED
    assert faults(verify_batch(encode_batch([]))) == []


async def test_in_the_process_of_jobs() -> None:
    send, receive = trio.open_memory_channel[tuple[str, bytes, str]](2)
    jobs = Jobs(lambda *done: send.send_nowait(done))
    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jobs.run)
            for tag in ("first", "second"):
                jobs.put("services.dmq.signature_job:verify_batch", encode_batch(checks()), tag)
                found_tag, result, error = await receive.receive()
                assert (found_tag, faults(result), error) == (tag, EXPECTED, "")
            nursery.cancel_scope.cancel()


def test_what_is_no_batch_is_an_error_of_the_job() -> None:
    with pytest.raises(ValueError, match=r"MessagePack|Expected"):
        verify_batch(b"\xc1")
