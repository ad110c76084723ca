"""What discovery writes to the node's log. That an advertisement was taken in, the router writes itself: `advert`."""

EVENTS = {
    "discovery_refused": "Another router brought something that does not count, so often in a period.",
    "discovery_left_out": "More groups are in common with a router nearby than are agreed on with one.",
    "discovery_datagrams": "Datagrams of a local network that did not count, so many in a minute.",
}
