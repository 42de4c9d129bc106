"""What people are shown of a network: the market's book as sections of the status page.

    network   {id}
    workers   {n, n_leaving, n_unlisted, classes {hub: n, ...}, memory_bytes,
               listed [[id, class, experts ready, memory bytes, leaving], ...]}
    models    [{id, name, architecture, backbone, n_layers, n_experts, n_bytes, n_ready,
               n_replicas, n_below_floor, overhead_bytes, n_at_hand, n_workers,
               has_disk, tokens_s, price_uc, rows_a_token}, ...]
    grids     {model id: {layers, width, copies, use}}, see grids.py

Names are what backbones call their models: text of strangers. Ids are the first 8 hex
digits; no address, token or key is in here. Everything is bounded: 48 workers are
listed, grids together have 65,536 cells. What is costly is done again only when it
changed, and the less often the larger it is: the relay shares this thread.

Pure but for the clock; called once a second while somebody looks.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.book import Book
from p2pmoe.market.deployments import Listing
from p2pmoe.market.lease import LeaseState
from p2pmoe.market.overview import Overview, overview_of
from p2pmoe.market.roster import Worker
from p2pmoe.network.grids import Grid
from relay.keys import PeerId, short_id

__all__ = ["NetworkStatus"]

_MAX_LISTED: Final = 48
_MAX_CELLS: Final = 1 << 16
# A pass over so many takes some 5 ms: half a percent of the relay's time at most.
_WORKERS_A_SECOND: Final = 5000
_CELLS_A_SECOND: Final = 5000
_MAX_NAME_CHARS: Final = 80


class NetworkStatus:
    """The sections of one network; empty until the market runs in this process."""

    def __init__(self, network: PeerId, monotonic: Callable[[], float]) -> None:
        self._network = network
        self._monotonic = monotonic
        self._book: Book | None = None
        self._models: dict[Listing, _Model] = {}
        self._workers: Mapping[str, object] = {}
        self._workers_due = float("-inf")

    def attach(self, book: Book) -> None:
        """Show this market's book from now on."""
        self._book = book

    def sections(self) -> Mapping[str, object]:
        """Return all sections, as JSON values."""
        network = {"id": short_id(self._network)}
        book = self._book
        if book is None:
            return {"network": network}
        now = self._monotonic()
        models = self._follow(book)
        return {
            "network": network,
            "workers": self._count_workers(book, now),
            "models": [model.told(book, now) for model in models],
            "grids": {model.name: model.grid(book, now) for model in _fitting(models)},
        }

    def _follow(self, book: Book) -> list["_Model"]:
        listings = book.roster.listings.values()
        self._models = {
            listing: self._models.get(listing) or _Model(listing)
            for listing in listings
        }
        return list(self._models.values())

    def _count_workers(self, book: Book, now: float) -> Mapping[str, object]:
        if now >= self._workers_due:
            self._workers = _tell_workers(book)
            self._workers_due = now + len(book.roster.workers) / _WORKERS_A_SECOND
        return self._workers


class _Model:
    """One deployment, and what was computed of it for which state."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        backbone, manifest = (
            listing.deployment.backbone,
            listing.deployment.manifest_hash,
        )
        self.name = f"{short_id(backbone)}-{short_id(manifest)}"
        self._grid = Grid(shard.expert for shard in listing.shards)
        self.n_cells = self._grid.n_cells
        self._n_bytes = sum(shard.n_bytes for shard in listing.shards)
        self._copies: list[str] = []
        self._use: list[str] = []
        self._drawn: tuple[object, ...] = ()
        self._due = float("-inf")
        self._overview: Overview | None = None
        self._looked_due = float("-inf")

    def told(self, book: Book, now: float) -> Mapping[str, object]:
        """Return the figures of the deployment."""
        listing = self._listing
        overview = self._look_over(book, now)
        leases = book.leases.of_deployment(listing.deployment)
        return {
            "id": self.name,
            "name": listing.name[:_MAX_NAME_CHARS],
            "architecture": listing.architecture[:_MAX_NAME_CHARS],
            "backbone": short_id(listing.deployment.backbone),
            "n_layers": len(self._grid.layers),
            "n_experts": len(listing.shards),
            "n_bytes": self._n_bytes,
            "n_ready": overview.n_ready,
            "n_replicas": overview.n_replicas,
            "n_below_floor": overview.n_below_floor,
            "overhead_bytes": overview.overhead_bytes,
            "n_at_hand": len(listing.at_hand),
            "n_workers": sum(lease.state is LeaseState.LIVE for lease in leases),
            "has_disk": listing.has_disk,
            "tokens_s": round(listing.tokens_s(now), 1),
            "price_uc": listing.prices.base_uc,
            "rows_a_token": listing.rows_a_token,
        }

    def _look_over(self, book: Book, now: float) -> Overview:
        if self._overview is None or now >= self._looked_due:
            self._overview = overview_of(self._listing, book.leases, book.assignment)
            self._looked_due = now + len(self._listing.shards) / _CELLS_A_SECOND
        return self._overview

    def grid(self, book: Book, now: float) -> Mapping[str, object]:
        """Return coverage and use of each expert."""
        self._renew(book, now)
        return {
            "layers": self._grid.layers,
            "width": self._grid.width,
            "copies": self._copies,
            "use": self._use,
        }

    def _renew(self, book: Book, now: float) -> None:
        listing = self._listing
        replicas = book.leases.replicas(listing.deployment)
        state = (replicas, replicas.version, listing.at_hand, listing.n_reports)
        if now < self._due or state == self._drawn:
            return
        if state[:3] != self._drawn[:3]:
            self._copies = self._grid.copies(replicas.counts, listing.at_hand)
        if listing.n_reports:
            self._use = self._grid.use(listing.demand())
        self._drawn = state
        self._due = now + self.n_cells / _CELLS_A_SECOND


def _fitting(models: Iterable[_Model]) -> list[_Model]:
    """Return the models whose grids fit, in their order; the rest has figures alone."""
    room = _MAX_CELLS
    found = []
    for model in models:
        if model.n_cells <= room:
            room -= model.n_cells
            found.append(model)
    return found


def _tell_workers(book: Book) -> Mapping[str, object]:
    workers = book.roster.workers.values()
    ready = {worker.peer: _n_ready(book, worker) for worker in workers}
    listed = heapq.nlargest(_MAX_LISTED, workers, key=lambda each: ready[each.peer])
    classes = Counter(worker.device.device_class for worker in workers)
    return {
        "n": len(ready),
        "n_leaving": sum(worker.is_draining for worker in workers),
        "n_unlisted": len(ready) - len(listed),
        "classes": {each.name.lower(): classes[each] for each in DeviceClass},
        "memory_bytes": sum(worker.memory_bytes for worker in workers),
        "listed": [
            [
                short_id(worker.peer),
                worker.device.device_class.name.lower(),
                ready[worker.peer],
                worker.memory_bytes,
                worker.is_draining,
            ]
            for worker in listed
        ],
    }


def _n_ready(book: Book, worker: Worker) -> int:
    leases = book.leases.of_worker(worker.peer)
    return sum(len(x.held_since) for x in leases if x.state is LeaseState.LIVE)
