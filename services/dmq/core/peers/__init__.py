"""The other nodes: which are known, dialled and asked, what they are told, and what is fetched from them."""
