"""One round of canaries: who is asked for what at one moment, and what they said.

One seed goes to all holders at once, so that one machine cannot answer for several in
turn. A holder that answers with a reason for what it leaves out is no worse for it; one
that answers nothing in time was silent on all that it was asked. Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import CanaryAnswer
from relay.keys import PeerId

__all__ = ["HASH_BYTES", "CanaryRound"]

HASH_BYTES = 16


@dataclass(slots=True, kw_only=True, eq=False)
class CanaryRound:
    """A round under way. `backbones` are asked like holders, and are none."""

    number: int
    manifest_hash: bytes
    seed: bytes
    opened_at: float
    closes_at: float
    asked: Mapping[PeerId, tuple[ExpertId, ...]]
    backbones: Mapping[PeerId, tuple[ExpertId, ...]]
    said: dict[PeerId, dict[ExpertId, bytes]] = field(default_factory=dict)
    excused: set[PeerId] = field(default_factory=set)
    _by_expert: dict[ExpertId, dict[PeerId, bytes]] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        """Whether nobody is awaited any more."""
        n_quiet = len(self.excused - self.said.keys())
        return len(self.said) + n_quiet >= len(self.asked) + len(self.backbones)

    def answered(self, peer: PeerId, answer: CanaryAnswer) -> bool:
        """Take an answer in, the first of each that was asked; False if it is none.

        What it names beyond what was asked is ignored.
        """
        wanted = self.asked.get(peer) or self.backbones.get(peer)
        if wanted is None or peer in self.said:
            return False
        if len(answer.hashes) != HASH_BYTES * len(answer.experts):
            return False
        known = frozenset(wanted)
        hashes = bytes(answer.hashes)
        self.said[peer] = {
            expert: hashes[HASH_BYTES * at : HASH_BYTES * (at + 1)]
            for at, expert in enumerate(answer.experts)
            if expert in known
        }
        for expert, word in self.said[peer].items():
            self._by_expert.setdefault(expert, {})[peer] = word
        return True

    def excuse(self, peer: PeerId) -> None:
        """The network lost the peer or its canary: it is not awaited, nor silent."""
        is_awaited = peer in self.asked or peer in self.backbones
        if is_awaited and peer not in self.said:
            self.excused.add(peer)

    def silent(self) -> Iterator[PeerId]:
        """Yield the holders that said nothing, though nothing was in their way."""
        for peer in self.asked:
            if peer not in self.said and peer not in self.excused:
                yield peer

    def experts(self) -> Collection[ExpertId]:
        """Return all experts that holders were asked for."""
        return {expert for experts in self.asked.values() for expert in experts}

    def said_of(self, expert: ExpertId) -> dict[PeerId, bytes]:
        """Return what holders said of one expert."""
        words = self._by_expert.get(expert, {})
        return {peer: word for peer, word in words.items() if peer in self.asked}

    def backbones_of(self, expert: ExpertId) -> dict[PeerId, bytes]:
        """Return what backbones said of one expert."""
        words = self._by_expert.get(expert, {})
        return {peer: word for peer, word in words.items() if peer in self.backbones}
