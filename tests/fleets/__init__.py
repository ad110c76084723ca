"""Event logs of fleets of simulated routers, and the truth about them."""
