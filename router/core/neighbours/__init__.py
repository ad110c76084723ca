"""The keys that this node knows: who they are, what they may, where they are reached, and who vouches for it."""
