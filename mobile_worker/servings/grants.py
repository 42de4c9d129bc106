"""Reading grants and price tables from outside; nothing unverified gets past here.

A price table counts when the network's market signed it for this network and model; a
grant counts when the network's ledger signed it for this network, this worker, the
backbone that sent it, the model leased, and the price table that the market named last:
those of the past end with the grants taken under them. All signatures are checked over
the bytes as received (faults B39). No I/O.
"""

from dataclasses import dataclass, field

from ledger.errors import GrantRefused
from ledger.grant import verify_grant
from ledger.prices import PriceTable, verify_price_table
from mobile_worker.servings.allowance import Allowance

__all__ = ["GrantReader"]

_MAX_TABLES = 64
_MAX_OF_MODEL = 3  # tables of one model may have thousands of rows


@dataclass(slots=True, kw_only=True)
class GrantReader:
    """The keys that count, and the price tables seen so far."""

    network: bytes  # [32] each
    worker: bytes
    ledger: bytes
    market: bytes
    _tables: dict[bytes, PriceTable] = field(default_factory=dict)

    def learn_prices(self, raw: bytes, signature: bytes) -> PriceTable:
        """Verify a price table and remember it.

        Raises:
            FormatRefused, KeyRefused, SignatureRefused: the table or its signature.
            GrantRefused: the table is another network's.
        """
        table = verify_price_table(raw, signature, self.market)
        if table.network != self.network:
            raise GrantRefused("the price table is another network's", peer=self.market)
        self._tables.pop(table.content_hash, None)
        self._tables[table.content_hash] = table
        of_model = [
            name
            for name, known in self._tables.items()
            if known.manifest_hash == table.manifest_hash
        ]
        for name in of_model[:-_MAX_OF_MODEL]:
            del self._tables[name]
        if len(self._tables) > _MAX_TABLES:
            del self._tables[next(iter(self._tables))]
        return table

    def read(
        self, raw: bytes, signature: bytes, backbone: bytes, manifest_hash: bytes
    ) -> Allowance | None:
        """Return what the grant allows, or None while its price table is unknown.

        Raises:
            FormatRefused, KeyRefused, SignatureRefused: the grant or its signature.
            GrantRefused: it is not for this worker, backbone, model and network.
        """
        grant = verify_grant(raw, signature, self.ledger)
        expected = {
            "network": (grant.network, self.network),
            "worker": (grant.worker, self.worker),
            "backbone": (grant.backbone, backbone),
            "model": (grant.manifest_hash, manifest_hash),
        }
        for name, (theirs, ours) in expected.items():
            if theirs != ours:
                raise GrantRefused(f"the grant is for another {name}", peer=backbone)
        table = self._tables.get(grant.price_table_hash)
        if table is None:
            return None
        if table.manifest_hash != manifest_hash:
            raise GrantRefused("the grant's prices are another model's", peer=backbone)
        if table is not self._current(manifest_hash):
            raise GrantRefused("the grant's prices are of the past", peer=backbone)
        return Allowance(grant=grant, name=grant.content_hash, prices=table)

    def _current(self, manifest_hash: bytes) -> PriceTable | None:
        """Return the table that the market named last for a model."""
        tables = reversed(self._tables.values())
        return next((t for t in tables if t.manifest_hash == manifest_hash), None)
