"""The store: messages, queues, subscriptions, routes and the duplicate index, in LMDB."""
