r"""Finals that a backbone drafts alone, for a tab that this worker lost; no I/O.

After a kill this worker no longer has the leaves that its backbone accepted. The
backbone drafts the tab's final voucher, files it with its own signature, and offers it:
FILE with the worker's signature missing. Signing is all gain, the ledger checks the
sums, but for one danger: whoever signs two different vouchers of one number has
equivocated. So the newest number signed in each tab and epoch is kept in the spool, and
a final is signed only if its number is higher, or it is the very one signed before.
That a tab was opened is kept, too: without it a spool that was lost would pass for a
tab in which nothing was signed.

    TAB_MARK: backbone 32 | tab 8 | price epoch u32 | number u32 | issued_us u64
              | hash of the voucher 32
    TAB_OPENED: the same with epoch, number and hash of zeros
"""

import struct
from dataclasses import dataclass

from ledger.errors import ChainRefused, FormatRefused
from ledger.leaf import LEAF_BYTES
from ledger.tally import TabTerms
from ledger.voucher import Voucher, verify_voucher, voucher_hash
from mobile_worker.messages.accounts import File

__all__ = ["TabMark", "check_final", "mark_key"]

_MARK = struct.Struct(">32s8sIIQ32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TabMark:
    """The newest voucher that this worker signed in a tab and price epoch."""

    backbone: bytes  # [32]
    tab: bytes  # [8]
    price_epoch: int
    number: int
    issued_us: int
    name: bytes  # [32] hash of the voucher's bytes

    @staticmethod
    def of(voucher: Voucher, name: bytes) -> "TabMark":
        """Return the mark that signing a voucher leaves."""
        return TabMark(
            backbone=voucher.backbone,
            tab=voucher.tab,
            price_epoch=voucher.price_epoch,
            number=voucher.number,
            issued_us=voucher.issued_us,
            name=name,
        )

    @staticmethod
    def opening(terms: TabTerms, now_us: int) -> "TabMark":
        """Return the mark that opening a tab leaves: nothing is signed in it."""
        return TabMark(
            backbone=terms.backbone,
            tab=terms.tab,
            price_epoch=0,
            number=0,
            issued_us=now_us,
            name=bytes(32),
        )

    @property
    def key(self) -> bytes:
        """What the mark is of, as bytes."""
        return self.backbone + self.tab + self.price_epoch.to_bytes(4, "big")

    def pack(self) -> bytes:
        """Return the spool payload."""
        return _MARK.pack(
            self.backbone,
            self.tab,
            self.price_epoch,
            self.number,
            self.issued_us,
            self.name,
        )

    @staticmethod
    def parse(raw: bytes) -> "TabMark":
        """Read a spool payload back.

        Raises:
            FormatRefused: another length.
        """
        if len(raw) != _MARK.size:
            raise FormatRefused(f"a mark of a tab of {len(raw)} bytes")
        backbone, tab, price_epoch, number, issued_us, name = _MARK.unpack(raw)
        return TabMark(
            backbone=backbone,
            tab=tab,
            price_epoch=price_epoch,
            number=number,
            issued_us=issued_us,
            name=name,
        )


def mark_key(voucher: Voucher) -> bytes:
    """Return the key under which a voucher's tab and epoch are marked."""
    return TabMark.of(voucher, b"").key


def check_final(
    file: File, voucher: Voucher, worker: bytes, network: bytes, mark: TabMark | None
) -> None:
    """Check that this worker may sign an offered final.

    Args:
        file: the offer, as its backbone sent it.
        voucher: its voucher, parsed.
        worker: this worker's id.
        network: ours.
        mark: of the voucher's tab and epoch, else of the tab's opening; None if we
            know nothing of the tab.

    Raises:
        ChainRefused: it is no final of ours, of no tab that we know, or of a number
            that we signed other bytes for.
        FormatRefused, KeyRefused, SignatureRefused: its leaves or its signature.
    """
    backbone = voucher.backbone
    if not voucher.final or voucher.worker != worker or voucher.network != network:
        raise ChainRefused("no final voucher of ours", peer=backbone)
    if mark is None or mark.backbone != backbone:
        raise ChainRefused("a tab that we know nothing of", peer=backbone)
    is_signed = voucher_hash(file.voucher) == mark.name
    if voucher.number <= mark.number and not is_signed:
        raise ChainRefused(
            f"final {voucher.number}, but {mark.number} is signed", peer=backbone
        )
    if len(file.leaves) % LEAF_BYTES:
        raise FormatRefused(f"{len(file.leaves)} bytes of leaves", peer=backbone)
    verify_voucher(file.voucher, file.backbone_signature, backbone)
