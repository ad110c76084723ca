"""Measurements of audits, streams and searches of large logs; each file is run by hand from the root of the tree."""
