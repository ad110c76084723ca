"""A guestbook, the tutorial of docs/services.md: what is sent to its address is a page, and all hear of the newest."""
