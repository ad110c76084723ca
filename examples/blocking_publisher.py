"""Publishes each line of standard input to a group, without async: the smallest thing a script can do.

    vmstat 5 | python examples/blocking_publisher.py machine-room

Prints the id of each message when our node has it on disk; from then on no crash loses it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import router


def publish(group_name: str, lines: Iterable[str]) -> None:
    with router.connect_blocking(as_name="publisher") as node:
        group = node.group(group_name)  # `node.join` would receive as well
        for line in lines:
            try:
                id = group.publish(line.rstrip("\n").encode())
            except router.Refused as refused:
                print(f"{line.rstrip()}: {refused}", file=sys.stderr)
            else:
                print(router.key_text("msg", id), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/blocking_publisher.py GROUP < LINES")
    try:
        publish(sys.argv[1], sys.stdin)
    except router.RouterError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
