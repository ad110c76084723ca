"""The stake distribution and the chain's time, which decide who may send."""
