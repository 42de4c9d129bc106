"""The accountant's how-to, command by command, as it is written."""

import csv
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ledger.periods import parse_period
from ledger.policy import Policy
from mobile_worker.clock import SystemClock
from p2pmoe.cli.ledger import register
from p2pmoe.network.folder import OperatorFolder, default_folder
from tests.support.ledger_world import DAY_US, World
from tests.support.shared import tool_path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "close-a-month.md"
RUNNER = CliRunner()


def blocks() -> list[str]:
    """Return the page's indented lines, in order."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.startswith("    ")]


def a_month(path: Path) -> World:
    """One worker, two tabs that were closed and one that closes with its grant."""
    world = World(base_uc=100_000)  # a row of ten experts costs a credit
    terms = Policy(fee_ppm=30_000, holdback_ppm=100_000)
    with world.open(path, credit_uc=10**12, terms=terms) as store:
        for n, final in enumerate((True, True, False)):
            issued = store.grant(world.order(ceiling_uc=10**9)).result(60)
            tab = world.tab(issued, tab=b"tab-%04d" % n)
            tab.file(store, *range(20 + n))
            tab.file(store, *range(100, 103), final=final)
        world.now_us += 5 * DAY_US
        store.tend()
        world.now_us = parse_period("2026-12").start_us + DAY_US
        store.tend()
    return world


class Accountant:
    """Does what the page says, and remembers what was printed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names = {"WORKER": world.worker.id.hex()}
        self.printed: dict[str, str] = {}

    def do(self, line: str) -> None:
        for name, value in self.names.items():
            line = line.replace(name, value)
        words, _, target = line.partition(" > ")
        program, *arguments = shlex.split(words)
        if program == "p2pmoe":
            output = self.ledger(arguments)
        else:
            output = subprocess.run(
                [tool_path(program), *arguments],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        self.printed[words] = output
        if target:
            Path(target).write_text(output, encoding="utf-8")

    def ledger(self, arguments: list[str]) -> str:
        app = typer.Typer()
        register(app)
        result = RUNNER.invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, (arguments, result.output)
        return result.stdout

    def rows(self, command: str) -> list[dict[str, str]]:
        return list(csv.DictReader(self.printed[command].splitlines(), delimiter="\t"))

    def bank(self, header: str) -> None:
        """Book what the payment file asks for, as a bank would."""
        (file,) = Path.cwd().glob("*.csv")
        orders = list(csv.DictReader(file.read_text().splitlines()))
        lines = [
            f"{order['end_to_end_id']},-{order['amount']},EUR,2026-12-04,B-{n}"
            for n, order in enumerate(orders)
        ]
        Path("statement.csv").write_text("\n".join([header, *lines]) + "\n")


@pytest.fixture
def accountant(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "home")
    )
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    world = a_month(OperatorFolder(default_folder()).ledger)
    # What is paid in December is paid in that one, whenever this is run.
    monkeypatch.setattr(SystemClock, "wall_us", lambda _: world.now_us)
    return Accountant(world)


def test_the_how_to_works_as_written(accountant):
    seen = []
    payees: list[str] = []
    for line in blocks():
        if line.startswith(("worker,", "WORKER,")):
            payees.append(line.replace("WORKER", accountant.names["WORKER"]))
            Path("payees.csv").write_text("\n".join(payees) + "\n")
        elif line.startswith("end_to_end_id,"):
            for name in ("statements.csv", "transfers.csv", "payees.csv"):
                Path(name).rename(Path(name).with_suffix(".done"))
            accountant.bank(line)
        else:
            if "explain TRANSFER" in line and "TRANSFER" not in accountant.names:
                payout = accountant.names["PAYOUT"]
                told = accountant.printed[f"p2pmoe ledger explain {payout}"]
                accountant.names["TRANSFER"] = transfer_in(told)
            accountant.do(line)
            seen.append(line)
        if line.startswith("p2pmoe ledger payout list --state confirmed"):
            rows = accountant.rows(line)
            accountant.names["PAYOUT"] = rows[0]["id"]
            assert [row["state"] for row in rows] == ["confirmed"]
    assert len(seen) >= 25
    check_what_was_printed(accountant)


def transfer_in(told: str) -> str:
    """Return the transfer that the first part of an explained payout names."""
    rows = csv.DictReader(told.splitlines(), delimiter="\t")
    return next(
        row["value"]
        for row in rows
        if (row["step"], row["name"]) == ("part", "transfer")
    )


def check_what_was_printed(accountant: Accountant) -> None:
    worker = accountant.names["WORKER"]
    printed = accountant.printed
    assert "verified\tTrue" in printed["p2pmoe ledger verify"]
    assert "2026-11" in printed["p2pmoe ledger periods"]
    hledger = printed["hledger -f november.journal balance"]
    assert f"Liabilities:Workers:{worker.upper()}:Available" in hledger
    assert hledger.splitlines()[-1].strip() == "0"
    statement = printed[f"p2pmoe ledger statement --worker {worker} --period 2026-11"]
    values = dict(line.split("\t") for line in statement.splitlines())
    assert int(values["fees_uc"]) > 0
    assert values["receipts held, holdback"].startswith("2 receipts")
    assert values["receipts pending, rest"].startswith(
        "4 receipts"
    )  # of the first two tabs
    assert values["statement hash"]
    explained = printed[f"p2pmoe ledger explain {accountant.names['TRANSFER']}"]
    assert "closed voucher" in explained
    assert "layer\texpert\tservings" in explained
    register = printed[
        f"p2pmoe ledger register {worker} --kind worker_available --period 2026-12"
    ]
    assert "\tpay\t" in register
