"""All accounts of this worker process: its tabs, by backbone and model; no I/O.

A tab is 8 random bytes, made when a backbone says HELLO. A HELLO that names the open
tab goes on with it; one that names none, or another, comes from a backbone that knows
nothing of what was served: the used tab is closed and a new one opened. Grants and the
value at risk belong to the backbone and outlive its tabs.

Every LedgerError of bytes from outside is raised to the caller and changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_bytes

from ledger.errors import ChainRefused, GrantRefused
from ledger.tally import TabTerms
from ledger.voucher import Voucher, sign_voucher
from mobile_worker.messages.accounts import Countersign, File, Grant
from mobile_worker.messages.serving import Accept
from mobile_worker.servings.allowance import Allowance, GrantUse
from mobile_worker.servings.chain import Proposal, Settled
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.finals import TabMark, check_final
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.tab import Tab
from relay.keys import PeerId

__all__ = ["AccountTotals", "Accounts"]

_WRITE_OFF_S = 10.0  # what a closed tab was not paid by then is not waited for
_GIVE_UP_S = 30.0  # a closed tab without its signatures is abandoned after this
_MAX_EARLY_GRANTS = 4
_MAX_GRANTS = 64


@dataclass(slots=True)
class AccountTotals:
    """Servings and micro-credits since the start."""

    accepted: int = 0
    signed: int = 0
    signed_uc: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class _Relation:
    """One backbone with one model."""

    manifest_hash: bytes
    exposure: Exposure
    tab: Tab | None = None
    allowances: list[Allowance] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)  # hashes of all grants ever taken
    early: list[Grant] = field(default_factory=list)  # their prices are not known yet


@dataclass(slots=True, kw_only=True)
class _Closing:
    peer: PeerId
    tab: Tab
    since: float


class Accounts:
    """See the module for the rules. `sign` signs as this worker."""

    def __init__(self, reader: GrantReader, sign: Callable[[bytes], bytes]) -> None:
        """Begin without tabs."""
        self.totals = AccountTotals()
        self.opened: list[TabTerms] = []  # tabs that the spool does not know of yet
        self._reader = reader
        self._sign = sign
        self._relations: dict[tuple[PeerId, bytes], _Relation] = {}
        self._exposures: dict[PeerId, Exposure] = {}
        self._tabs: dict[bytes, tuple[PeerId, Tab]] = {}
        self._closing: list[_Closing] = []
        self._claimed_before: dict[bytes, int] = {}

    @property
    def is_settled(self) -> bool:
        """Whether everything accepted is signed, or given up."""
        return all(tab.is_settled for _, tab in self._tabs.values())

    @property
    def n_open(self) -> int:
        """Servings that may still be accepted."""
        return sum(tab.n_open for _, tab in self._tabs.values())

    def greeted(
        self, peer: PeerId, manifest_hash: bytes, profile: int, their_tab: bytes
    ) -> Tab:
        """Return the tab for a backbone that says HELLO, opened if need be."""
        relation = self._relation(peer, manifest_hash)
        tab = relation.tab
        if tab is not None:
            goes_on = their_tab == tab.terms.tab or not tab.is_used
            if goes_on and tab.terms.profile == profile and not tab.is_closed:
                return tab
            tab.close()
        terms = TabTerms(
            network=self._reader.network,
            manifest_hash=manifest_hash,
            profile=profile,
            worker=self._reader.worker,
            backbone=peer,
            tab=token_bytes(8),
        )
        tab = relation.tab = Tab(terms, relation.exposure)
        for allowance in relation.allowances:
            tab.allow(allowance)
        self._tabs[terms.tab] = (peer, tab)
        self.opened.append(terms)
        return tab

    def find(self, peer: PeerId, tab_id: bytes) -> Tab | None:
        """Return the tab of this backbone with this id."""
        owner, tab = self._tabs.get(tab_id, (None, None))
        return tab if owner == peer else None

    def in_use(self) -> list[tuple[PeerId, Tab]]:
        """Return the open tab of each backbone and model, with the backbone."""
        return [
            (peer, relation.tab)
            for (peer, _), relation in self._relations.items()
            if relation.tab is not None and not relation.tab.is_closed
        ]

    def priced(self, table: bytes, signature: bytes) -> None:
        """Take a price table, and the grants that waited for it.

        Raises:
            LedgerError: the market did not sign it for this network.
        """
        self._reader.learn_prices(table, signature)
        for (peer, _), relation in self._relations.items():
            waiting, relation.early = relation.early, []
            for grant in waiting:
                self._allow(peer, relation, grant)

    def granted(self, peer: PeerId, grant: Grant) -> None:
        """Take a grant that a backbone hands over.

        Raises:
            LedgerError: the ledger did not sign it for the two of us.
        """
        if grant.error:
            return
        refused: GrantRefused | None = None
        for (owner, _), relation in self._relations.items():
            if owner != peer:
                continue
            try:
                self._allow(peer, relation, grant)
            except GrantRefused as error:
                refused = error
            else:
                return
        raise refused or GrantRefused("a grant before any lease", peer=peer)

    def recall(self, use: GrantUse) -> None:
        """Note what an earlier run of this worker claimed under a grant."""
        self._claimed_before[use.name] = use.claimed_uc

    def expect(self, peer: PeerId, manifest_hash: bytes) -> None:
        """Note that this backbone may ask for experts of this model: it has a lease."""
        self._relation(peer, manifest_hash)

    def accepted(self, peer: PeerId, accept: Accept, now: float) -> None:
        """Take an ACCEPT."""
        tab = self.find(peer, accept.tab)
        if tab is not None:
            self.totals.accepted += tab.accept(accept.ranges, now)

    def countersigned(
        self, peer: PeerId, answer: Countersign, now: float
    ) -> Settled | None:
        """Take the answer to a voucher; return it if it now has both signatures.

        Raises:
            SignatureRefused: the signature does not verify.
        """
        for owner, tab in self._tabs.values():
            if owner != peer:
                continue
            if not answer.backbone_signature:
                tab.refused(answer.voucher_hash, now)
                continue
            settled = tab.countersigned(answer.voucher_hash, answer.backbone_signature)
            if settled is not None:
                self.totals.signed += settled.n_leaves
                self.totals.signed_uc += settled.amount_uc
                return settled
        return None

    def sign_final(self, peer: PeerId, offer: File, mark: TabMark | None) -> Settled:
        """Sign a final that a backbone drafted for a tab of an earlier run.

        A tab of this run that it closes is given up: its backbone signs nothing more.

        Raises:
            LedgerError: it must not be signed; nothing was changed.
        """
        voucher = Voucher.parse(offer.voucher)
        if voucher.backbone != peer:
            raise ChainRefused("a final of another backbone", peer=peer)
        check_final(offer, voucher, self._reader.worker, self._reader.network, mark)
        tab = self.find(peer, voucher.tab)
        if tab is not None:
            # A proposal may be signed and not in the spool yet.
            if tab.signed_up_to(voucher.price_epoch) >= voucher.number:
                raise ChainRefused(f"final {voucher.number} is late", peer=peer)
            tab.abandon()
        return Settled(
            raw=offer.voucher,
            worker_signature=sign_voucher(offer.voucher, self._sign),
            backbone_signature=offer.backbone_signature,
            leaves=offer.leaves,
        )

    def due(self, now: float, wall_us: int) -> list[tuple[PeerId, Proposal]]:
        """Return the vouchers to send now, and drop tabs that are done."""
        proposals: list[tuple[PeerId, Proposal]] = []
        for tab_id, (peer, tab) in list(self._tabs.items()):
            tab.tick(now)
            found = tab.propose(now, wall_us, self._sign)
            proposals.extend((peer, proposal) for proposal in found)
            if tab.is_closed:
                self._retire(tab_id, peer, tab, now)
        return proposals

    def close(self, peer: PeerId | None = None) -> None:
        """Close the tabs of a backbone, or all: final vouchers follow."""
        for owner, tab in self._tabs.values():
            if peer is None or owner == peer:
                tab.close()

    def write_off(self) -> None:
        """Stop waiting for servings that were never accepted."""
        for _, tab in self._tabs.values():
            tab.write_off()

    def _relation(self, peer: PeerId, manifest_hash: bytes) -> _Relation:
        key = (peer, manifest_hash)
        if key not in self._relations:
            exposure = self._exposures.setdefault(peer, Exposure())
            self._relations[key] = _Relation(
                manifest_hash=manifest_hash, exposure=exposure
            )
        return self._relations[key]

    def _allow(self, peer: PeerId, relation: _Relation, grant: Grant) -> None:
        allowance = self._reader.read(
            grant.grant, grant.signature, peer, relation.manifest_hash
        )
        if allowance is None:
            relation.early = [*relation.early, grant][-_MAX_EARLY_GRANTS:]
            return
        if allowance.name in relation.seen:
            return
        relation.seen.add(allowance.name)
        allowance.used_uc = self._claimed_before.get(allowance.name, 0)
        allowance.claimed_uc = allowance.used_uc
        epoch = allowance.prices.epoch  # a new tab is served at its prices alone
        roomy = [
            known
            for known in relation.allowances
            if known.room_uc > 0 and known.prices.epoch == epoch
        ]
        relation.allowances = [*roomy, allowance][-_MAX_GRANTS:]
        if relation.tab is not None:
            relation.tab.allow(allowance)

    def _retire(self, tab_id: bytes, peer: PeerId, tab: Tab, now: float) -> None:
        closing = next((c for c in self._closing if c.tab is tab), None)
        if closing is None:
            closing = _Closing(peer=peer, tab=tab, since=now)
            self._closing.append(closing)
        if now - closing.since >= _WRITE_OFF_S:
            tab.write_off()
        if now - closing.since >= _GIVE_UP_S:
            tab.abandon()
        if tab.is_settled and tab.n_open == 0:
            self._closing.remove(closing)
            del self._tabs[tab_id]
