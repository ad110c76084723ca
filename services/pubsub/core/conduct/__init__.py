"""The conduct of other routers: who passes messages on, who answers, and what follows if one does not."""
