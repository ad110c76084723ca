"""Every limit of the deciding core in one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from .acceptance import AcceptanceLimits
from .admission import AdmissionLimits
from .delivery import DeliveryLimits
from .door_log import DoorLimits
from .duplicate_index import IndexLimits
from .membership import MembershipLimits
from .outcomes import OutcomeLimits
from .queues import QueueLimits
from .routes import RouteLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """By the parts that keep them, and those of the router itself."""

    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    delivery: DeliveryLimits = field(default_factory=DeliveryLimits)
    door: DoorLimits = field(default_factory=DoorLimits)
    index: IndexLimits = field(default_factory=IndexLimits)
    membership: MembershipLimits = field(default_factory=MembershipLimits)
    outcomes: OutcomeLimits = field(default_factory=OutcomeLimits)
    queues: QueueLimits = field(default_factory=QueueLimits)
    routes: RouteLimits = field(default_factory=RouteLimits)
    seen_recent_max: int = 200_000
    locals_max: int = 1000
    away_s_max: int = 30 * 86_400
    pulls_per_s: float = 10.0
