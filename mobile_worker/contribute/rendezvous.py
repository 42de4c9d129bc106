"""Which experts a worker holds when no market tells it: weighted rendezvous. Pure.

Every worker ranks all experts by a hash of its own id and the expert, weighted by how
few hold it, and takes from the top what its room takes. Nobody must agree with anybody:
workers that join at the same moment spread by their ids, one that joins again chooses
the same while the picture is the same, and what few hold is chosen by more.

Source: Thaler and Ravishankar, highest random weight, with weights by -w / ln(u).
"""

import hashlib
import math
from collections.abc import Iterable, Mapping

from mobile_worker.expert_id import ExpertId
from relay.keys import PeerId

__all__ = ["choose_experts"]

_DOMAIN = b"p2pmoe fallback v1\0"


def choose_experts(
    own: PeerId,
    sizes: Iterable[tuple[ExpertId, int]],
    n_holders: Mapping[ExpertId, int],
    room_bytes: int,
) -> tuple[ExpertId, ...]:
    """Return the experts to hold, in ascending order.

    Args:
        own: the worker that chooses.
        sizes: all experts of the model, with their bytes.
        n_holders: how many others hold each; none where it is missing.
        room_bytes: what the experts may take together.
    """
    ranked = sorted(
        sizes,
        key=lambda each: (-_score(own, each[0], n_holders.get(each[0], 0)), each[0]),
    )
    chosen = []
    for expert, n_bytes in ranked:
        if n_bytes <= room_bytes:
            room_bytes -= n_bytes
            chosen.append(expert)
    return tuple(sorted(chosen))


def _score(own: PeerId, expert: ExpertId, n_holders: int) -> float:
    key = _DOMAIN + own + expert.packed.to_bytes(4, "little")
    digest = hashlib.sha256(key).digest()
    uniform = (int.from_bytes(digest[:7], "big") + 1) / (2**56 + 1)
    return -1.0 / ((1 + n_holders) ** 2 * math.log(uniform))
