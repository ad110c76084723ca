"""The rings of topics: their members, neighbours, and the order in which these are asked (R-C32)."""
