"""The commands of docs/capd.md, as they stand there, from an empty home on."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import trio

from router.actors.process import program
from router.rig.process import HANG_S, Process

GUIDE = Path(__file__).parents[2] / "docs" / "capd.md"
SERVE = "router serve"


def commands() -> list[str]:
    """Return the lines of the first two blocks of commands: a node's start, and what a wallet does."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks[:2] for line in block.splitlines()]


@pytest.mark.long
async def test_the_guide_works_as_it_is_printed(tmp_path: Path) -> None:
    bin_path = Path(program("router")[0]).parent
    home = tmp_path / "home"
    environment = {**os.environ, "ROUTER_HOME": str(home), "PATH": f"{bin_path}:{os.environ['PATH']}"}
    said: dict[str, str] = {}
    node = Process("node", [*program("router", "--home", str(home)), "serve"], tmp_path / "stderr")
    own_id = ""
    try:
        for line in commands():
            if line == SERVE:
                await node.launch()
                await node.ready()
                continue
            typed = re.sub(r"\bID\b", own_id, line)
            with trio.fail_after(HANG_S):
                ended = await trio.run_process(
                    ["bash", "-o", "pipefail", "-c", typed], env=environment, cwd=tmp_path, check=False,
                    capture_stdout=True, capture_stderr=True,
                )  # fmt: skip
            assert ended.returncode == 0, (typed, ended.stdout, ended.stderr)
            said[line] = ended.stdout.decode()
            if line.startswith("router capd post") and not own_id:
                own_id = re.findall(r"(?m)^id +(\w{64})$", said[line])[0]
    finally:
        await node.stop()
    found = {" ".join(shlex.split(line)[2:4]): text for line, text in said.items() if own_id in text}
    assert {"query --prefix", "query --value", "watch --prefix", "rescind ID", "post TKD offer"} <= found.keys()
    assert re.search(r"(?m)^known +2$", said["router capd import pool.dat"]), "the local message, and the reply"
    assert (tmp_path / "stderr").read_text() == "", "an orderly end warns of nothing"
