"""`router capd`: the commands of a pool of Counterparty and Protocol Discovery, which stand in files of their own."""

from __future__ import annotations

import click

from router.cli.command import CommandGroup
from services.capd.bench_command import bench
from services.capd.conform_command import conform
from services.capd.decode_command import decode
from services.capd.demo_command import demo
from services.capd.file_commands import export_, import_
from services.capd.peers_command import address, peers
from services.capd.post_commands import post, reply, rescind, solve
from services.capd.query_commands import get, info, query, watch

COMMANDS = {
    "capd": "Post and find messages that are paid for by work (CAPD).",
}


@click.group(cls=CommandGroup)
def capd() -> None:
    """Post and find messages that are paid for by work (Counterparty and Protocol Discovery, CAPD)."""


for _command in (
    *(post, reply, rescind, query, watch, get, info, solve),
    *(export_, import_, decode, peers, address, conform, bench, demo),
):
    capd.add_command(_command)
