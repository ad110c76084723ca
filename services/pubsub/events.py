"""The events that the pub/sub service writes to the node's log."""

EVENTS = {
    "pubsub_refused": "Another router brought something that does not count, so often in a minute.",
    "pubsub_left_out": "More groups are in common with a router than are agreed on with one.",
    "pubsub_given_up": "A message published here is not sent to other nodes any more, though none has taken it.",
    "pubsub_not_taken": "Messages of others that no neighbour took from here, so many in a minute.",
    "pubsub_repaired": "A message has come after it was missed and asked for.",
    "pubsub_unanswered": "A message that others have named came from nobody who was asked for it.",
    "pubsub_not_asked": "Ids that others have named and that were not asked for, so many in a minute.",
    "pubsub_barred": "A router that takes messages and passes none on has lost its place, for so many seconds.",
    "pubsub_caught_up": "What was missing of a group was asked for; how many messages nobody had, of how many.",
}
