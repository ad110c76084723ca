"""A world of routers and apps in one process, on simulated time."""
