"""Judge key, configuration, disk and limits of a home by facts; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from router.cli.output import size_text
from router.core.wire.text import key_text, span_text
from router.doctor.finding import Descriptors, DiskFacts, Finding, Running, split_remedy
from router.node.descriptors import room
from router.settings.config import Config

SYNC_SLOW_S = 0.1
OVER_A_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.rclone",
     "fuse.s3fs", "fuse.glusterfs", "davfs")
)  # fmt: skip
IN_MEMORY = frozenset(("tmpfs", "ramfs"))
OPEN_PERCENT_MAX = 90


def judge_config(problems: list[str], path: str, missing: str = "") -> Finding:
    """Judge `router.toml` by the problems that `router config check` finds. `missing`: what holds as there is none."""
    if missing and not problems:
        return Finding("config", True, missing)
    if not problems:
        return Finding("config", True, f"{path} is in order")
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return Finding("config", False, f"{problems[0]}{more}", "mend it; `router config check` lists every problem")


def judge_warnings(check: str, warnings: Iterable[str]) -> Iterator[Finding]:
    """Judge a valid configuration by the warnings about it; there is no finding if all is well."""
    for one in warnings:
        said, remedy = split_remedy(one)
        yield Finding(check, False, said, remedy)


def judge_key(key: bytes, path: str, fault: str, running: Running | None) -> Finding:
    """Judge the node's key: readable by its owner only, and the one that the running node uses."""
    if fault:
        said, remedy = split_remedy(fault)
        return Finding("key", False, said, remedy or f"restore {path} from a copy: a new key is another node")
    if running is not None and running.status["address"] != key.hex():
        used = key_text("addr", bytes.fromhex(running.status["address"]))
        remedy = "stop the node and start it again, after seeing which of the two keys others know"
        return Finding("key", False, f"the running node uses {used}, not the key in {path}", remedy)
    return Finding("key", True, f"{key_text('addr', key)}, readable by its owner only")


def judge_disk(disk: DiskFacts, config: Config) -> Finding:
    """Judge the disk of the home: its place, whether it can be written, and its free space."""
    store, found = config.store, f"{size_text(disk.free_bytes)} free in {disk.path}"
    if disk.timed_out:
        said = f"the disk of {disk.path} did not answer in time"
        return Finding("disk", False, said, "see the system's log (`dmesg`) for errors of that disk or its network")
    if disk.fault:
        return Finding("disk", False, f"{disk.path} cannot be written: {disk.fault}", _unwritable(disk))
    if disk.free_bytes < store.disk_free_bytes_min:
        least = size_text(store.disk_free_bytes_min)
        said = f"{found}, less than store.disk_free_bytes_min ({least}): messages are refused with reason disk-full"
        return Finding("disk", False, said, "free some space, or move the home to a larger disk")
    if disk.filesystem in OVER_A_NETWORK:
        said = f"{disk.path} lies on a network file system ({disk.filesystem}), which may lose or mix up the database"
        return Finding("disk", False, said, "stop the node, and move the home to a disk of this machine")
    if disk.filesystem in IN_MEMORY:
        said = f"{disk.path} lies in memory ({disk.filesystem}): the next start of the machine loses it all"
        return Finding("disk", False, said, "stop the node, and move the home to a disk")
    return Finding("disk", True, found, _growth(disk, config))


def _unwritable(disk: DiskFacts) -> str:
    if disk.free_bytes == 0:
        return "free some space, or move the home to a larger disk"
    return "make it writable for this user, or see in the system's log (`dmesg`) why the disk became read-only"


def _growth(disk: DiskFacts, config: Config) -> str:
    """Return the remedy where database and log may grow beyond the disk; "" if they may not."""
    spare = disk.free_bytes - config.store.disk_free_bytes_min
    log = config.log.keep_bytes - disk.log_bytes
    store = max(0, config.store.map_bytes_max - disk.store_bytes)
    if max(0, log) + store <= spare:
        return ""
    said = f"log and database may grow by {size_text(max(0, log) + store)}"
    return f"{said}, and {size_text(spare)} may be used: lower log.keep_bytes or store.map_bytes_max"


def judge_sync(disk: DiskFacts, config: Config) -> Finding:
    """Judge how long a sync of the disk takes, for which every commit waits."""
    if disk.timed_out or not disk.syncs_s:
        return Finding("sync", None, "not measured, as nothing could be written")
    typical, slowest = median(disk.syncs_s), max(disk.syncs_s)
    said = f"a write is safe on the disk after {_ms(typical)} (median of {len(disk.syncs_s)}, slowest {_ms(slowest)})"
    if config.store.durability == "unsynced":
        remedy = 'set store.durability = "synced" if a power cut must lose nothing'
        return Finding("sync", True, f"{said}, but store.durability is unsynced", remedy)
    if typical > SYNC_SLOW_S:
        remedy = "move the home to a faster disk, or see what else keeps this one busy (`iostat -x 1`)"
        return Finding("sync", False, f"{said}: each commit waits so long", remedy)
    return Finding("sync", True, said)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def judge_backup(running: Running | None, config: Config) -> Iterator[Finding]:
    """Judge the snapshots that the node makes by itself; there is no finding where it is to make none."""
    found = running.status.get("backup") if running is not None else None
    if running is None and config.backup.directory:
        said = f"no node runs that could make snapshots in {config.backup.directory}"
        yield Finding("backup", None, said, "start it; `router backup FILE` makes one without a node")
    if not found:
        return
    every, directory = span_text(found["every_s"]), found["directory"]
    if found["age_s"] is None:
        said = f"no snapshot whose age is known is in {directory}"
    else:
        said = f"the newest snapshot in {directory} is {span_text(found['age_s'])} old, and one is due every {every}"
    why = found["problem"]
    if why:
        said += "; the last attempt failed"
    if found["overdue"]:
        yield Finding("backup", False, said, why or "see `router status` and the node's log for what it waits for")
    elif why:
        yield Finding("backup", None, said, f"{why}; it is tried again")
    else:
        yield Finding("backup", True, said)


def judge_limits(found: Descriptors, config: Config, listeners: int) -> Finding:
    """Judge whether the process may open as many files as its connections need."""
    wanted = config.limits.connections_max
    said = f"{found.most:,} file descriptors" + ("" if found.open is None else f", {found.open:,} of them open")
    remedy = "raise LimitNOFILE of the service (`ulimit -Hn` of the shell), or lower limits.connections_max"
    if found.open is not None and found.open * 100 > found.most * OPEN_PERCENT_MAX:
        return Finding("limits", False, f"{said}: soon none is left for a connection", remedy)
    if (allowed := room(found.most, listeners)) < wanted:
        said += f": enough for {allowed:,} connections a listener, and limits.connections_max is {wanted:,}"
        return Finding("limits", False, said, remedy)
    return Finding("limits", True, f"{said}: enough for limits.connections_max ({wanted:,})")
