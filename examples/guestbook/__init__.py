"""A guestbook, the tutorial of docs/services.md: a message to its address is a page, and subscribers hear of each new
one."""
