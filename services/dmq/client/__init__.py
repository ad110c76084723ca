"""A signer's or consumer's end of a connection to a DMQ node, over a Unix socket."""
