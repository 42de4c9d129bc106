r"""The STANDBY paper: what the held replicas of one model are paid for one epoch.

Contract: one canonical binary encoding, signed by the market, named by its SHA-256:

    magic "PMSB" | version u8 | network 32 | manifest_hash 32 | epoch u32 | from_us i64
    | to_us i64 | price_table_hash 32 | pot_uc i64 | n_experts u32 | n_holdings u32
    | n_experts * (expert u32, demand u64, multiplier u32, target u32, coverage u32)
    | n_holdings * (expert u32, worker 32, domain 8, share u32)

with expert = layer << 16 | index, experts sorted, holdings sorted by expert and worker,
none twice. Multiplier m, target T, coverage R and share a are Q16.16. `demand` is the
rows paid for in the epoch. `domain` is a label of the market's: equal in one paper is
one failure domain. A share is what a replica adds to its domain's part of the coverage:
those of one domain are at most 1 together, those of an expert at most R. `pot_uc` is H,
the most that this paper gives.

Amounts are not written down, they follow, in whole micro-credits rounded down:

    H * m * a * min(1, T / R) / sum over all experts of m * T

so no sum of them passes H, whatever the market writes. Integers only. Signed bytes are
`"p2pmoe/standby/v1\0" || paper`. Pure.

Source: design/06, "Price".
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from hashlib import sha256
from itertools import pairwise

from ledger.amounts import check_amount
from ledger.errors import FormatRefused
from ledger.keys import verify
from ledger.prices import ONE_Q16

__all__ = [
    "DOMAIN_LABEL_BYTES",
    "MAX_STANDBY_EXPERTS",
    "MAX_STANDBY_HOLDINGS",
    "MAX_STANDBY_SPAN_US",
    "STANDBY_DOMAIN",
    "ExpertScarcity",
    "Holding",
    "StandbyPaper",
    "sign_standby",
    "standby_hash",
    "verify_standby",
]

STANDBY_DOMAIN = b"p2pmoe/standby/v1\0"
MAX_STANDBY_EXPERTS = 1 << 16
MAX_STANDBY_HOLDINGS = 1 << 17  # of one paper: some seconds of the one writer
MAX_STANDBY_SPAN_US = 86_400_000_000
DOMAIN_LABEL_BYTES = 8
_MIN_SPAN_US = 1_000_000
_MAGIC, _VERSION = b"PMSB", 1
_HEAD = struct.Struct(">4sB32s32sIqq32sqII")
_EXPERT = struct.Struct(">IQIII")
_HOLDING = struct.Struct(">I32s8sI")


@dataclass(frozen=True, slots=True)
class ExpertScarcity:
    """How scarce one expert was in the epoch."""

    expert: int  # packed: layer << 16 | index
    demand: int  # rows paid for in the epoch, u64
    multiplier: int  # m, Q16.16, above 0
    target: int  # T, Q16.16
    coverage: int  # R, Q16.16


@dataclass(frozen=True, slots=True)
class Holding:
    """One replica that was held for the whole epoch and passed its check."""

    expert: int  # packed
    worker: bytes  # [32]
    domain: bytes  # [8] the market's label of its failure domain
    share: int  # a, Q16.16, above 0, at most 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPaper:
    """What the replicas of one model are paid for one epoch, and from what it follows.

    Raises:
        FormatRefused, AmountRefused: a field out of its bounds, an order that is not
            canonical, a holding of an expert that is not listed, shares above their
            domain's 1 or their expert's coverage.
    """

    network: bytes  # [32]
    manifest_hash: bytes  # [32]
    epoch: int  # u32
    from_us: int
    to_us: int  # exclusive
    price_table_hash: bytes  # [32] of the prices that held; zeros where there were none
    pot_uc: int  # H
    experts: tuple[ExpertScarcity, ...]
    holdings: tuple[Holding, ...]

    def __post_init__(self) -> None:
        """Check every field, the orders, and the shares."""
        names = (self.network, self.manifest_hash, self.price_table_hash)
        if any(len(name) != 32 for name in names):
            raise FormatRefused("standby paper: network, model, prices are 32 bytes")
        if not 0 <= self.epoch < 1 << 32:
            raise FormatRefused(f"standby paper: epoch {self.epoch}")
        span_us = self.to_us - self.from_us
        if self.from_us < 0 or not _MIN_SPAN_US <= span_us <= MAX_STANDBY_SPAN_US:
            raise FormatRefused(f"standby paper: {self.from_us}..{self.to_us} us")
        if (
            len(self.experts) > MAX_STANDBY_EXPERTS
            or len(self.holdings) > MAX_STANDBY_HOLDINGS
        ):
            raise FormatRefused(
                f"standby paper of {len(self.experts)} experts and "
                f"{len(self.holdings)} holdings"
            )
        check_amount(self.pot_uc)
        _check_experts(self.experts)
        _check_holdings(self.experts, self.holdings)

    @property
    def weight(self) -> int:
        """Return the sum of multipliers times targets, by which the pot is divided."""
        return sum(each.multiplier * each.target for each in self.experts)

    def amounts(self) -> Iterator[tuple[Holding, int]]:
        """Yield every holding with its micro-credits, in order."""
        experts = {each.expert: each for each in self.experts}
        weight = self.weight
        for holding in self.holdings:
            yield holding, self._amount(holding, experts[holding.expert], weight)

    def pay(self) -> dict[bytes, int]:
        """Return what each worker is paid in all, by ascending worker; no zeros."""
        sums: defaultdict[bytes, int] = defaultdict(int)
        for holding, amount_uc in self.amounts():
            sums[holding.worker] += amount_uc
        return {worker: sums[worker] for worker in sorted(sums) if sums[worker]}

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        head = _HEAD.pack(
            _MAGIC,
            _VERSION,
            self.network,
            self.manifest_hash,
            self.epoch,
            self.from_us,
            self.to_us,
            self.price_table_hash,
            self.pot_uc,
            len(self.experts),
            len(self.holdings),
        )
        experts = b"".join(_EXPERT.pack(*astuple(each)) for each in self.experts)
        holdings = b"".join(
            _HOLDING.pack(each.expert, each.worker, each.domain, each.share)
            for each in self.holdings
        )
        return head + experts + holdings

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the paper's name."""
        return standby_hash(self.pack())

    @staticmethod
    def parse(raw: bytes) -> "StandbyPaper":
        """Read canonical bytes back.

        Raises:
            FormatRefused, AmountRefused: wrong magic, version or length, or as for
                the constructor.
        """
        if len(raw) < _HEAD.size:
            raise FormatRefused(f"standby paper of {len(raw)} bytes")
        magic, version, *fields, n_experts, n_holdings = _HEAD.unpack_from(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"standby paper: magic {magic!r} version {version}")
        middle = _HEAD.size + n_experts * _EXPERT.size
        if len(raw) != middle + n_holdings * _HOLDING.size:
            raise FormatRefused(
                f"standby paper: {n_experts} experts and {n_holdings} holdings in "
                f"{len(raw)} bytes"
            )
        if n_experts > MAX_STANDBY_EXPERTS or n_holdings > MAX_STANDBY_HOLDINGS:
            raise FormatRefused(
                f"standby paper of {n_experts} experts and {n_holdings} holdings"
            )
        return StandbyPaper(
            network=fields[0],
            manifest_hash=fields[1],
            epoch=fields[2],
            from_us=fields[3],
            to_us=fields[4],
            price_table_hash=fields[5],
            pot_uc=fields[6],
            experts=tuple(
                ExpertScarcity(*row)
                for row in _EXPERT.iter_unpack(raw[_HEAD.size : middle])
            ),
            holdings=tuple(Holding(*row) for row in _HOLDING.iter_unpack(raw[middle:])),
        )

    def _amount(self, holding: Holding, of: ExpertScarcity, weight: int) -> int:
        """Return H m a min(1, T/R) / sum(m T), every fraction of it in Q16.16."""
        if not weight or not of.coverage:
            return 0
        filled = min(of.target, of.coverage)
        paid = self.pot_uc * of.multiplier * holding.share * filled
        return paid // (of.coverage * weight)


def standby_hash(raw: bytes) -> bytes:
    """Return a packed paper's 32-byte name."""
    return sha256(raw).digest()


def sign_standby(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the market's 64-byte signature over the packed paper."""
    return sign(STANDBY_DOMAIN + raw)


def verify_standby(raw: bytes, signature: bytes, market: bytes) -> StandbyPaper:
    """Check the market's signature over the bytes as received, then read them.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused, AmountRefused: see there.
    """
    verify(market, STANDBY_DOMAIN, raw, signature)
    return StandbyPaper.parse(raw)


def _check_experts(experts: tuple[ExpertScarcity, ...]) -> None:
    if any(one.expert >= other.expert for one, other in pairwise(experts)):
        raise FormatRefused("standby paper: its experts are not in order")
    for each in experts:
        words = (each.expert, each.multiplier, each.target, each.coverage)
        is_bounded = all(0 <= word < 1 << 32 for word in words)
        if not is_bounded or not each.multiplier or not 0 <= each.demand < 1 << 63:
            raise FormatRefused(f"standby paper: scarcity {astuple(each)}")


def _check_holdings(
    experts: tuple[ExpertScarcity, ...], holdings: tuple[Holding, ...]
) -> None:
    order = [(each.expert, each.worker) for each in holdings]
    if any(one >= other for one, other in pairwise(order)):
        raise FormatRefused("standby paper: its holdings are not in order")
    coverage = {each.expert: each.coverage for each in experts}
    of_domain: defaultdict[tuple[int, bytes], int] = defaultdict(int)
    of_expert: defaultdict[int, int] = defaultdict(int)
    for each in holdings:
        if len(each.worker) != 32 or len(each.domain) != DOMAIN_LABEL_BYTES:
            raise FormatRefused("standby paper: a worker of 32 and a domain of 8 bytes")
        if each.expert not in coverage or not 0 < each.share <= ONE_Q16:
            raise FormatRefused(
                f"standby paper: share {each.share} of expert {each.expert}"
            )
        of_domain[each.expert, each.domain] += each.share
        of_expert[each.expert] += each.share
    for (expert, domain), share in of_domain.items():
        if share > ONE_Q16:
            raise FormatRefused(
                f"standby paper: domain {domain.hex()} has more than one share of "
                f"expert {expert >> 16}/{expert & 0xFFFF}"
            )
    for expert, share in of_expert.items():
        if share > coverage[expert]:
            raise FormatRefused(
                f"standby paper: shares above the coverage of expert "
                f"{expert >> 16}/{expert & 0xFFFF}"
            )
