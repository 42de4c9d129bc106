"""A disputed serving with both sides' folders, and the commands about it."""

from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from ledger.accounts import AccountKind
from p2pmoe.cli import ledger, receipts
from tests.support.disputes import Closing, closing_of
from tests.support.ledger_world import held
from tests.support.served_leaf import (
    close_with,
    identity_folder,
    pocket_world,
    serving,
)

__all__ = ["DisputeCase", "done", "refused", "run"]


def run(*words: object) -> Result:
    app = typer.Typer()
    ledger.register(app)
    receipts.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


def refused(error: type[Exception], match: str, *words: object) -> None:
    result = run(*words)
    assert isinstance(result.exception, error), (result.output, result.exception)
    assert match in str(result.exception)


class DisputeCase:
    """A closed ledger, both sides' folders, and the files between them."""

    def __init__(self, folder: Path, results: bytes) -> None:
        self.folder = folder
        self.world = pocket_world()
        self.data = ("--data", folder / "ledger")
        with self.world.open(folder / "ledger") as store:
            self.tab = close_with(self.world, store, results)
        self.worker = ("--data", identity_folder(folder / "worker", "worker"))
        self.backbone = ("--data", identity_folder(folder / "backbone", "backbone"))
        (folder / "rows").write_bytes(serving().rows)
        (folder / "results").write_bytes(results)
        self.receipt = folder / "receipt.json"
        tab = self.tab.tab.hex()
        words = ("ledger", "receipt", "prove", tab, 0, "--output", self.receipt)
        done(*words, *self.data)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def claim(self, name: str = "claim") -> Path:
        words = ("--opened", self / "rows", "-o", self / name)
        done("receipts", "dispute", self.receipt, *words, *self.backbone)
        return self / name

    def open(self) -> None:
        """Hand a claim in."""
        opened = done("ledger", "dispute", "open", self.claim(), *self.data)
        assert "state\topen" in opened.stdout

    def state(self) -> tuple[Closing, int]:
        with self.world.open(self / "ledger") as store:
            return closing_of(store), held(store, AccountKind.PENALTY)
