"""One deployment: a backbone's manifest, what it reports, and what is wanted of it.

A deployment is one model as one backbone serves it; each has its own leases, prices
and placements, also where two backbones serve the same model (a worker that holds an
expert for both counts its bytes twice: on the safe side). The manifest comes signed by
the backbone; its name is the SHA-256 of its bytes.

Pure.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.market import Demand
from mobile_worker.shards.manifest import Manifest, ManifestError, parse_manifest
from p2pmoe.market.demand import DemandAverage, Shard, TokenRate, wanted_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.lease import Deployment
from p2pmoe.market.price import SignedPrices
from p2pmoe.market.wanted import Wanted
from relay.keys import PeerId, verify

__all__ = [
    "MANIFEST_DOMAIN",
    "Listing",
    "content_name",
    "expert_of",
    "key_of",
    "open_notice",
    "sign_manifest",
]

MANIFEST_DOMAIN = b"p2pmoe manifest v1\0"
_RERANK_S = 30.0
_RERANK_AT_MOST_S = 2.5  # ranking costs the market far more than a report its sender


def sign_manifest(manifest: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the backbone's 64-byte signature over a manifest's bytes."""
    return sign(MANIFEST_DOMAIN + manifest)


def open_notice(manifest: bytes, signature: bytes, backbone: PeerId) -> Manifest:
    """Check a manifest's signature, then read it.

    Raises:
        NoticeRefused: the signature is wrong, or the manifest is malformed or empty.
    """
    if not verify(backbone, MANIFEST_DOMAIN + manifest, signature):
        raise NoticeRefused("the manifest's signature is wrong")
    try:
        parsed = parse_manifest(manifest)
    except ManifestError as exc:
        raise NoticeRefused(str(exc)) from exc
    if not parsed.experts:
        raise NoticeRefused("the manifest names no experts")
    return parsed


def key_of(number: int, expert: ExpertId) -> ExpertKey:
    """Return the key of an expert of deployment `number`."""
    return ExpertKey(number << 32 | expert.packed)


def expert_of(key: ExpertKey) -> ExpertId:
    """Return the expert within its deployment."""
    return ExpertId.unpack(key & 0xFFFFFFFF)


class Listing:
    """A deployment as the market keeps it. `number` is the market's own for it.

    `priced_at`: when its prices changed last, in this run of the market.
    `rows_a_token`: rows of experts that one token takes, as reported; 0 if not known.
    """

    def __init__(
        self,
        deployment: Deployment,
        number: int,
        parsed: Manifest,
        manifest: bytes,
        prices: SignedPrices,
    ) -> None:
        self.deployment = deployment
        self.number = number
        self.manifest = manifest
        self.name = parsed.name
        self.architecture = parsed.architecture
        self.prices = prices
        self.priced_at = float("-inf")
        self.record = b""
        self.heard_at = 0.0
        self.n_reports = 0
        self.rows_a_token = 0
        self.shards = [
            Shard(
                key=key_of(number, each.expert),
                expert=each.expert,
                n_bytes=each.n_bytes,
                digest=each.digest,
            )
            for each in parsed.experts
        ]
        self.by_digest: dict[bytes, list[Shard]] = {}
        for shard in self.shards:
            self.by_digest.setdefault(shard.digest, []).append(shard)
        self._digests = {shard.expert: shard.digest for shard in self.shards}
        self._average = DemandAverage()
        self._tokens = TokenRate()
        self._at_hand: frozenset[ExpertId] = frozenset()
        self._has_disk = False
        self._is_reported = False
        self._has_changed = False
        self._ranked_at = float("-inf")

    def digests_of(self, experts: Iterable[ExpertId]) -> list[bytes]:
        """Return the shard hashes of experts of this manifest."""
        return [self._digests[e] for e in experts if e in self._digests]

    @property
    def at_hand(self) -> frozenset[ExpertId]:
        """Experts in the backbone's own memory, as it said last."""
        return self._at_hand

    @property
    def has_disk(self) -> bool:
        """Whether the backbone can read every expert from its own disk."""
        return self._has_disk

    def has(self, expert: ExpertId) -> bool:
        """Tell whether the backbone itself can compute an expert."""
        known = expert in self._digests
        return known and (self._has_disk or expert in self._at_hand)

    def tokens_s(self, now: float) -> float:
        """Return how many tokens a second the backbone reports."""
        return self._tokens.per_s(now)

    def report(self, demand: Demand, now: float) -> bool:
        """Take a backbone's report in; return whether the wanted list should follow.

        It follows within seconds if what the backbone has at hand changed, else at
        most every 30 s. What the report says of unknown experts is ignored.
        """
        known = [(e, n) for e, n in demand.counts if e in self._digests]
        self._average.report(known, now)
        self._tokens.report(demand.n_tokens, now)
        self.n_reports += 1
        if demand.n_tokens:
            rows = sum(n for _, n in known)
            self.rows_a_token = round(rows / demand.n_tokens)
        at_hand = frozenset(e for e in demand.at_hand if e in self._digests)
        self._has_changed |= (at_hand, demand.has_disk) != (
            self._at_hand,
            self._has_disk,
        )
        self._at_hand, self._has_disk = at_hand, demand.has_disk
        first, self._is_reported = not self._is_reported, True
        quiet_s = now - self._ranked_at
        wait_s = _RERANK_AT_MOST_S if self._has_changed else _RERANK_S
        return first or quiet_s >= wait_s

    def demand(self) -> Mapping[ExpertId, float]:
        """Return how much each expert is used, in multiples of the mean."""
        return self._average.relative([shard.expert for shard in self.shards])

    def wanted(self, now: float) -> list[Wanted]:
        """Return what is wanted of each expert by what has been reported so far.

        Before the first report every expert is wanted alike and no disk is assumed.
        """
        self._ranked_at = now
        self._has_changed = False
        demand = self.demand()
        return wanted_of(self.shards, demand, self._at_hand, has_disk=self._has_disk)


def content_name(manifest: bytes) -> bytes:
    """Return the manifest's name: SHA-256 of its bytes."""
    return hashlib.sha256(manifest).digest()
