"""The decisions of a DMQ node, pure: bytes and times in, messages and verdicts out (docs/dmq.md)."""
