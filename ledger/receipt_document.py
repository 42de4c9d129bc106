"""One receipt for other programs: a flat JSON-able row with stable names. Pure."""

from ledger.amounts import format_credits
from ledger.periods import format_us
from ledger.receipt_states import ReceiptLine, why_sentence

__all__ = ["receipt_document"]


def receipt_document(line: ReceiptLine, *, explained: bool) -> dict[str, object]:
    """Return a receipt's row; `explained` adds a sentence on why its state is so."""
    row: dict[str, object] = {
        "time": format_us(line.posted_us),
        "status": line.state.value,
        "reason": line.why,
        "worker": line.worker.hex(),
        "backbone": line.backbone.hex(),
        "tab": line.tab.hex(),
        "epoch": line.price_epoch,
        "number": line.number,
        "servings": line.servings,
        "amount_uc": line.amount_uc,
        "amount": format_credits(line.amount_uc),
        "voucher": line.voucher_hash.hex(),
    }
    return row | {"why": why_sentence(line)} if explained else row
