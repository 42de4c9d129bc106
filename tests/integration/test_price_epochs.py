"""Prices that follow scarcity, over a real relay: new tables, and what they pay."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from sqlalchemy import select

from ledger.database import Reader
from ledger.export import leaves_of
from ledger.leaf import Leaf
from ledger.prices import PriceTable
from ledger.schema import price_table, voucher
from ledger.voucher import Voucher
from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

EPOCH_S = 3
BASE_UC = 100
N_LOOKS = 200


async def prices_of(network: Network) -> dict[str, Any]:
    """Return what `p2pmoe market prices` says."""
    done = await trio.run_process(
        [
            *(sys.executable, "-m", "p2pmoe", "market", "prices", "--json"),
            *("--data", str(network.folder / "net")),
        ],
        capture_stdout=True,
        stdin=subprocess.DEVNULL,
    )
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


async def until_prices_part(network: Network) -> None:
    """Wait until experts cost differently and the market knows what was paid for."""
    for _ in range(N_LOOKS):
        experts = (await prices_of(network))["experts"]
        prices = {expert["price_uc"] for expert in experts}
        if len(prices) >= 2 and any(expert["paid_rows"] for expert in experts):
            return
        await trio.sleep(0.5)
    raise AssertionError("every expert still costs the same")


@pytest.mark.slow
@trio_test
async def test_two_epochs_pay_two_prices_and_their_vouchers_close(
    tmp_path: Path,
) -> None:
    options = ("--price-epoch", str(EPOCH_S))
    with trio.fail_after(500):
        async with network_running(
            tmp_path, workers=["hub", "edge-1"], market=options
        ) as network:
            first = await network.answer(PROMPTS[0])
            await until_prices_part(network)
            # Again until both sides have been told, and what is new has been filed.
            while not differing_prices_were_paid(network.ledger_folder):
                again = await network.answer(PROMPTS[0])
                assert again.text == first.text
                await trio.sleep(1.0)
            books = await network.close_the_books()
    assert books.accepted == books.n_receipts
    check_ledger(network.ledger_folder)


def differing_prices_were_paid(folder: Path) -> bool:
    """Whether two tables were paid by, and some rows above or below the base price.

    Told by the leaves: the rows of a voucher may cost their base price on the mean.
    """
    reader = Reader(folder)
    with reader.session() as connection:
        names = connection.execute(select(voucher.c.id)).scalars().all()
        packed = [leaves_of(connection, reader.folder, name) for name in names]
    leaves = [Leaf.parse(raw) for block in packed for raw in block]
    is_off_base = any(leaf.amount_uc != BASE_UC * leaf.rows for leaf in leaves)
    return is_off_base and len({leaf.price_epoch for leaf in leaves}) >= 2


def check_ledger(folder: Path) -> None:
    """Every voucher is final, and prices that differ were paid.

    That each sum is what its leaves and its table say, the verifiers have found.
    """
    with Reader(folder).session() as connection:
        stored = connection.execute(select(price_table)).all()
        filed = connection.execute(select(voucher)).all()
    assert all(row.final for row in filed)
    tables = {row.hash: PriceTable.parse(row.raw) for row in stored}
    for each in (Voucher.parse(row.raw) for row in filed):
        table = tables[each.price_table_hash]
        assert (table.epoch, table.base_uc) == (each.price_epoch, BASE_UC)
        prices = [BASE_UC, *(BASE_UC * m >> 16 for m in table.multipliers.values())]
        assert min(prices) * each.rows <= each.amount_uc <= max(prices) * each.rows
    assert differing_prices_were_paid(folder)
