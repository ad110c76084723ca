"""The groups that are joined at this node, and who has joined them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from router.core.routing.groups import Subscription
from router.core.wire.list_page import ListPage, page_of
from router.node.questions.question import CycleView, Questions, Respond


class GroupQuestions(Questions):
    """Lists the subscriptions. `known_names` returns the names of groups by their keys, `known_keys` those of the keys
    that the home keeps, both from memory."""

    def __init__(
        self,
        known_names: Callable[[], Mapping[bytes, str]] = dict,
        known_keys: Callable[[], Mapping[bytes, str]] = dict,
    ) -> None:
        self._known_names = known_names
        self._known_keys = known_keys

    def answers(self) -> dict[str, Respond]:
        return {"groups": self._list}

    def _list(self, asked: CycleView, argument: str) -> ListPage | dict[str, str]:
        names, keys = self._known_names(), self._known_keys()

        def row(one: Subscription) -> dict[str, Any]:
            return {
                "group": one.group.hex(),
                "name": names.get(bytes(one.group), ""),
                "subscriber": one.subscriber.hex(),
                "subscriber_name": keys.get(bytes(one.subscriber), ""),
                "local": one.local,
            }

        return page_of(list(asked.router.groups), argument, row)
