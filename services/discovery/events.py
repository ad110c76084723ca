"""What discovery writes to the node's log. That an advertisement was taken in, the router writes itself: `advert`."""

EVENTS = {
    "discovery_refused": "Another router, or a local network, brought something that does not count, so often.",
    "discovery_left_out": "More groups are in common with a router nearby than are agreed on with one.",
}
