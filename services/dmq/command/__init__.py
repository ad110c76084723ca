"""The commands of `router dmq`, a file for each."""
