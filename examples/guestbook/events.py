"""The events that a guestbook writes to the node's log."""

EVENTS = {
    "guestbook_signed": "A page was written.",
    "guestbook_turned": "A page was refused.",
    "guestbook_struck": "A page was struck out by the operator.",
}
