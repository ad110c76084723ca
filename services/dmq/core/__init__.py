"""What a DMQ node decides, pure: bytes and times in, messages and verdicts out (docs/dmq.md)."""
