"""Meetings: which other routers want the same groups, and how both agree on these (R-D20, R-C27, R-C36)."""
