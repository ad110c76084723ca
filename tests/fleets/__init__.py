"""Event logs of fleets of simulated routers, with the figures that an audit must find."""
