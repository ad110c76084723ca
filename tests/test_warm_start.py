"""The process that quick tests fork commands from ends with the tests, also if these are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess

from rigs.warm_start import serve


def test_prepared_process_ends_with_the_tests_though_another_process_holds_the_socket() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there, subprocess.Popen(["sleep", "600"]) as tests:
        descriptor = os.pidfd_open(tests.pid)
        tests.send_signal(signal.SIGKILL)
        assert serve(there, descriptor) is None
        os.close(descriptor)
