"""The protocols of a DMQ node, pure: bytes in, messages and states out, with clients and with other nodes (CIP-137)."""
