"""Pub/sub simulated: many nodes that run the code of `services.pubsub.core` on simulated time; and other protocols."""
