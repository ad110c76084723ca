"""TCP: connect to a host, or listen on its addresses; errors state the cause in words."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any

import psutil
import trio
from trio.socket import SocketType

from router.core.link.liveness import UNKNOWN, PathSigns, PathView
from router.core.wire.reasons import Reason
from router.transport.contract import ConnectFailed, ListenFailed
from router.transport.sockets import words

BACKLOG = 1024  # connections the kernel holds for us before we accept them
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 4

_INFO = struct.Struct("=8B13I")  # the first fields of Linux's struct tcp_info
_REPEATS, _UNACKED, _ACKED_AGO_MS = 2, 12, 20  # their places

_NO_WAY = {errno.ENETUNREACH, errno.ENETDOWN}  # as after sleep, or without a network
_FATAL = {errno.EADDRINUSE, errno.EACCES}  # others may only mean that this machine has no IPv6


def host_port(host: str, port: int) -> str:
    """Return host and port as text: `127.0.0.1:4101`, `[::1]:4101`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def connect(host: str, port: int) -> SocketType:
    """Return a socket connected to the first of the host's addresses that answers. Raises `ConnectFailed`."""
    try:
        sock = (await trio.open_tcp_stream(host, port)).socket
    except OSError as error:
        text = f"{host_port(host, port)} cannot be reached: {why(error)}"
        said, is_unassigned = f"{text}; {_remedy(error, host)}", number_of(error) == errno.EHOSTUNREACH
        raise ConnectFailed(Reason.CONNECT_FAILED, said, is_unassigned=is_unassigned) from None
    tune(sock)
    return sock


async def look_up(host: str, port: int, *, timeout_s: float) -> list[str]:
    """Return the addresses of a name, those of IPv4 and of IPv6 by turns (RFC 8305). Raises `ConnectFailed`."""
    try:
        with trio.fail_after(timeout_s):
            rows = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except trio.TooSlowError:
        text = f"the name {host} was not resolved within {timeout_s:g} s; is the name server reached?"
        raise ConnectFailed(Reason.CONNECT_TIMEOUT, text) from None
    except OSError as error:
        text = f"{host_port(host, port)} cannot be reached: {why(error)}; {_remedy(error, host)}"
        raise ConnectFailed(Reason.CONNECT_FAILED, text) from None
    first = rows[0][0] if rows else None
    found = list(dict.fromkeys((row[0] != first, str(row[4][0])) for row in rows))
    by_turns = zip_longest([ip for is_other, ip in found if not is_other], [ip for is_other, ip in found if is_other])
    return [ip for pair in by_turns for ip in pair if ip is not None]


def is_literal(host: str) -> bool:
    """Whether a host is an IP address, which needs no looking up."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _remedy(error: OSError, host: str) -> str:
    zone = host.partition("%")[2]
    if isinstance(error, socket.gaierror) and zone:
        return f"has this machine an interface {zone}? `ip link` lists them"
    if isinstance(error, socket.gaierror):
        return f"is the name {host} right?"
    if number_of(error) == errno.EINVAL:
        return "does the name lead to a link-local address? Dial that with its interface, as in fe80::1%eth0"
    if number_of(error) in _NO_WAY:
        return "is this machine in that network?"
    return "is the node running and its port open?"


def why(error: OSError) -> str:
    """Return the cause in words; trio raises one error for all addresses of a name."""
    number = number_of(error)
    return words(OSError(number, os.strerror(number)) if number and number > 0 else _cause(error))


def number_of(error: OSError) -> int | None:
    """Return the system's number of an error, also of the one that trio raises for all addresses of a name."""
    first = _cause(error)
    return first.errno if isinstance(first, OSError) else None


def _cause(error: OSError) -> Exception:
    group = error.__cause__  # one error per address tried
    return group.exceptions[0] if isinstance(group, ExceptionGroup) else error


def tune(sock: SocketType) -> None:
    """Send without delay (TCP_NODELAY), and detect within two minutes that a peer is gone."""
    with suppress(OSError):  # already reset by the peer: the next read will say so
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def path_of(sock: SocketType) -> PathView:
    """Return how to find out about the path of a connected socket."""
    return PathView(partial(_signs, sock), partial(is_stranded, sock))


def _signs(sock: SocketType) -> PathSigns:
    """Return what Linux knows of the path; other systems do not tell."""
    if sys.platform != "linux":
        return UNKNOWN
    try:
        found = _INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    except (OSError, struct.error):  # it is closed, or the system has another form
        return UNKNOWN
    return PathSigns(found[_UNACKED] > 0, found[_ACKED_AGO_MS] / 1000, found[_REPEATS])


def is_stranded(sock: SocketType) -> bool:
    """Whether the socket's own address is gone from this machine; an address may also be usable without being one of
    an interface."""
    try:
        own = sock.getsockname()
        with socket.socket(sock.family, socket.SOCK_DGRAM) as probe:
            probe.bind((own[0], 0, *own[2:]))
        return False
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            return False
    present = {row.address.partition("%")[0] for rows in psutil.net_if_addrs().values() for row in rows}
    return str(ip_address(own[0].partition("%")[0])) not in present


async def bind(host: str, port: int) -> list[SocketType]:
    """Return listening sockets on every address of `host` (every interface if empty), all on one port.

    Port 0 lets the system choose. Raises `ListenFailed`.
    """
    found = await _addresses(host, port)
    listeners: list[SocketType] = []
    failed = OSError("no address")
    for family, address in found:
        try:
            listeners.append(await _listener(family, (address[0], port, *address[2:])))
            port = listeners[0].getsockname()[1]
        except OSError as error:
            failed = error
            if error.errno in _FATAL:
                break
    if not listeners or failed.errno in _FATAL:
        for listener in listeners:
            listener.close()
        raise ListenFailed(_why_not(host_port(host, port), failed))
    return listeners


_Address = tuple[Any, ...]


async def _addresses(host: str, port: int) -> list[tuple[int, _Address]]:
    try:
        found = await trio.socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        text = f"cannot listen on {host_port(host, port)}: {words(error)}"
        raise ListenFailed(f"{text}; name an address of this machine, or leave the host out for all") from None
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


async def _listener(family: int, address: _Address) -> SocketType:
    sock = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        await sock.bind(address)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _why_not(where: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {where}: another program uses this port; stop it, or choose another port"
    if error.errno == errno.EACCES:
        return f"cannot listen on {where}: this user may not use the port; choose one above 1023"
    return f"cannot listen on {where}: {words(error)}; name an address of this machine"
