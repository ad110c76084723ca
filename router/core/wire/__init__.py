"""What is said on the wire: codec, keys, texts, messages, link items, and what is said to a router."""
