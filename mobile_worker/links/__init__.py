"""Links to other peers: through the relay, direct, or in memory."""

from mobile_worker.links.events import (
    Arrived,
    LostReason,
    NodeEvent,
    PathKind,
    PeerBack,
    PeerLost,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.memory import MemoryNetwork
from mobile_worker.links.node import Node, NodeSettings, Traffic
from mobile_worker.links.open_node import open_node

__all__ = [
    "Arrived",
    "LostReason",
    "MemoryNetwork",
    "Node",
    "NodeEvent",
    "NodeSettings",
    "PathKind",
    "PeerBack",
    "PeerLost",
    "RelayChanged",
    "Traffic",
    "Undelivered",
    "UndeliveredReason",
    "open_node",
]
