"""What the demo found out, as values: metrics read, figures worked out, one JSON.

Pure. The demo's claims are computed here from what the processes themselves report:
the backbone's metrics, the API's answer, the ledger's own commands.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["DemoFacts", "Metrics", "hash_tokens"]

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_REMOTE = ("hub", "edge")


class Metrics:
    """Samples of a Prometheus text page, by name and labels."""

    def __init__(self, text: str) -> None:
        self._samples: list[tuple[str, dict[str, str], float]] = []
        for line in text.splitlines():
            match = _SAMPLE.match(line)
            if match:
                labels = dict(_LABEL.findall(match[2] or ""))
                self._samples.append((match[1], labels, float(match[3])))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all samples of `name` that carry these labels."""
        return sum(
            value
            for sample, found, value in self._samples
            if sample == name and labels.items() <= found.items()
        )

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the samples of `name`, keyed by one of their labels."""
        return {
            found[label]: value
            for sample, found, value in self._samples
            if sample == name and label in found
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DemoFacts:
    """All that the demo claims; amounts in micro-credits, memory in bytes."""

    prompt: str
    text: str
    tokens: tuple[int, ...]
    single_process_tokens: tuple[int, ...]
    kernel: str  # of the backbone
    killed_worker: str
    failovers: int
    round_trips_per_token: float
    calls: Mapping[str, int]
    bytes_up: int
    bytes_down: int
    tokens_per_s: float
    servings_accepted: int
    servings_unsigned_at_kill: int
    receipts_count: int
    receipts_verified: int
    payouts: Mapping[str, int]
    names: Mapping[str, str]
    ledger_verified: bool
    worker_memory: Mapping[str, int]
    seconds: float

    @property
    def identical(self) -> bool:
        """Whether the scattered run gave the single process's tokens."""
        return bool(self.tokens) and self.tokens == self.single_process_tokens

    @property
    def remote_share(self) -> float:
        """Return the share of expert calls that hub and edge computed, 0 to 1."""
        total = sum(self.calls.values())
        remote = sum(self.calls.get(tier, 0) for tier in _REMOTE)
        return remote / total if total else 0.0

    @property
    def adds_up(self) -> bool:
        """Whether every accepted serving has a receipt or was unsigned at the kill."""
        covered = self.receipts_count + self.servings_unsigned_at_kill
        return self.servings_accepted == covered

    @property
    def holds(self) -> bool:
        """Whether everything that the demo claims is true."""
        return (
            self.identical
            and self.ledger_verified
            and self.adds_up
            and self.receipts_verified == self.receipts_count
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that `p2pmoe demo --json` prints."""
        return {
            "text": self.text,
            "prompt": self.prompt,
            "tokens": list(self.tokens),
            "identical_to_single_process": self.identical,
            "kernel": self.kernel,
            "killed_worker": self.killed_worker,
            "failovers": self.failovers,
            "round_trips_per_token": round(self.round_trips_per_token, 3),
            "calls": dict(self.calls),
            "remote_share": round(self.remote_share, 4),
            "bytes": {"up": self.bytes_up, "down": self.bytes_down},
            "servings": {
                "accepted": self.servings_accepted,
                "unsigned_at_kill": self.servings_unsigned_at_kill,
            },
            "receipts": {
                "count": self.receipts_count,
                "verified": self.receipts_verified,
            },
            "tokens_sha256": hash_tokens(self.tokens),
            "payouts": dict(self.payouts),
            "names": dict(self.names),
            "ledger_verified": self.ledger_verified,
            "tokens_per_s": round(self.tokens_per_s, 2),
            "worker_memory_bytes": dict(self.worker_memory),
            "seconds": round(self.seconds, 1),
        }


def hash_tokens(tokens: Sequence[int]) -> str:
    """Return the SHA-256 of the ids, each as four big-endian bytes, in hex."""
    return hashlib.sha256(b"".join(t.to_bytes(4, "big") for t in tokens)).hexdigest()
