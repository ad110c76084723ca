"""The events that discovery writes to the node's log. The router itself writes `advert` when it accepts an
advertisement."""

EVENTS = {
    "discovery_refused": "Another router, or a local network, brought something that does not count, so often.",
    "discovery_left_out": "More groups are in common with a router nearby than are agreed on with one.",
}
