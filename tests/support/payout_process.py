"""A command that sends payouts and is killed at a chosen point, for crash tests.

Run as `python -m tests.support.payout_process FOLDER OUTSIDE POINT`. What leaves the
house is a line of the file OUTSIDE, synced: that is what "was paid" means. POINT is one
of `POINTS`, where the process kills itself with SIGKILL, or `none`.
"""

import os
import signal
import sys
from pathlib import Path

from ledger.payout_list import payouts
from p2pmoe.payouts.adapter import Outcome, OutcomeKind
from p2pmoe.payouts.payees import Payee, Payees
from p2pmoe.payouts.sending import orders_of, send_orders, sending_right
from tests.support.ledger_world import World

__all__ = ["POINTS", "main", "paid_outside"]

POINTS = ("before start", "after start", "before record", "after record")


def paid_outside(path: Path) -> list[str]:
    """Return the keys that were paid, in order, repeats included."""
    return path.read_text().split() if path.exists() else []


class _Outside:
    """Pays by a line in a file."""

    name = "bank"
    max_orders = 1

    def __init__(self, path: Path) -> None:
        self.path = path

    def refusal(self, payee: Payee) -> str:
        return ""

    def send(self, orders) -> list[Outcome]:
        with self.path.open("a") as file:
            file.writelines(f"{order.key}\n" for order in orders)
            file.flush()
            os.fsync(file.fileno())
        return [Outcome(kind=OutcomeKind.SENT)] * len(orders)


def main() -> None:
    folder, outside, point = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    n_steps = 0
    with World().open(folder) as store, sending_right(folder):

        def ask(name, params):
            # The second payout meets the kill, so that one went well before.
            nonlocal n_steps
            verb = name.removeprefix("payout.")
            n_steps += verb == "record"
            is_here = n_steps == (2 if verb == "record" else 1)
            if is_here and point == f"before {verb}":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = store.operate(name, params).result(60)
            if is_here and point == f"after {verb}":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        with store.reader().session() as connection:
            rows = payouts(connection, state="prepared")
        payees = Payees()
        for row in rows:
            worker = bytes.fromhex(row["worker"])
            payees.good[worker] = Payee(worker=worker, name=row["destination"])
        orders, _ = orders_of(rows, payees, way := _Outside(outside))
        found = send_orders(ask, way, orders)
    sys.exit(3 if found.is_open else 0)


if __name__ == "__main__":
    main()
