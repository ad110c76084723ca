"""Everything that goes over the wire: codec, keys, texts, messages, link items, control messages and inquiries."""
