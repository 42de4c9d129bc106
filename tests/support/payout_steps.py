"""Payouts through the store's operations, each beside the model's."""

from collections.abc import Callable, Mapping

import pytest

from ledger.errors import PayoutRefused
from ledger.store import Store
from tests.support.money_model import MoneyModel, Payout

__all__ = ["PAYOUT_ACTIONS", "PayoutSteps"]

PAYOUT_ACTIONS = (
    "start",
    "start",  # else few go far
    "record sent",
    "record confirmed",
    "record failed",
    "record unresolved",
    "recover",
    "confirm",
    "resolve paid",
    "resolve not",
    "void",
)
_RATE = "1 credit = 1 EUR"


class PayoutSteps:
    """Takes a step in both, or sees it refused in both."""

    def __init__(self, model: MoneyModel) -> None:
        self.names: list[str] = []  # of the closed periods
        self._model = model
        self._ids: list[str] = []

    def prepare(
        self, store: Store, period: int, workers: Mapping[str, str]
    ) -> list[tuple[str, str, int]]:
        """Prepare a period's payouts; return worker, id and amount of each."""
        names = {worker: name for name, worker in workers.items()}
        params = {
            "period": self.names[period],
            "adapter": "bank",
            "rate": _RATE,
            "payees": [{"worker": w, "destination": n} for w, n in names.items()],
        }
        said = store.operate("payout.prepare", {**params, "commit": False}).result(60)
        done = store.operate("payout.prepare", {**params, "commit": True}).result(60)
        assert said["payouts"] == done["payouts"]
        return [
            (names[each["worker"]], each["id"], each["amount_uc"])
            for each in done["payouts"]
        ]

    def add(self, payout_id: str, payout: Payout) -> None:
        """Remember the id of the model's newest payout."""
        assert self._model.payouts[-1] is payout
        self._ids.append(payout_id)

    def step(self, store: Store, at: int, action: str) -> None:
        """Take one step of one payout."""
        at %= len(self._ids)
        payout, payout_id = self._model.payouts[at], self._ids[at]
        verb, _, outcome = action.partition(" ")
        if verb == "recover":
            store.operate("payout.recover", {}).result(60)
            for each in self._model.payouts:
                if each.state == "sending":
                    self._model.step(each, "unresolved")
            return
        to, is_barred, params = self._asked(verb, outcome, payout, payout_id)

        def ask() -> None:
            store.operate(f"payout.{verb}", params).result(60)

        self._compare(ask, payout, to, is_barred=is_barred)

    def _asked(
        self, verb: str, outcome: str, payout: Payout, payout_id: str
    ) -> tuple[str, bool, dict[str, object]]:
        """Return what state a step leads to, if it is barred here, and its words."""
        one: dict[str, object] = {"id": payout_id}
        if verb == "start":
            is_new = payout.state == "prepared"
            return "sending", not is_new, {"payouts": [one]}
        if verb == "record":
            return outcome, False, {"outcomes": [{**one, "state": outcome}]}
        one["commit"] = True
        if verb == "confirm":
            return "confirmed", payout.state in {"sending", "unresolved"}, one
        if verb == "void":
            return "void", False, one
        is_paid = outcome == "paid"
        return "confirmed" if is_paid else "failed", False, {**one, "paid": is_paid}

    def _compare(
        self, ask: Callable[[], None], payout: Payout, to: str, *, is_barred: bool
    ) -> None:
        is_repeat = payout.state == to and not is_barred
        if not is_repeat and (is_barred or not self._model.may_step(payout, to)):
            with pytest.raises(PayoutRefused):
                ask()
            return
        ask()
        if not is_repeat:
            self._model.step(payout, to)
