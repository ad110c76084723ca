"""Peer sampling simulated: many nodes that run the code of `services.discovery.core`, on simulated time."""
