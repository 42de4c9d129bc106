"""Market and ledger beside the relay; that they run is tested with the operator."""

import contextlib
from pathlib import Path

import pytest

from mobile_worker.clock import SystemClock
from mobile_worker.errors import IdentityInUse
from p2pmoe.market.price import PriceSettings
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.together import Together
from tests.support.relays import NETWORK


def test_identities_are_locked_until_the_end(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    values = {"opening_credit_uc": 0, "prices": PriceSettings()}
    with contextlib.ExitStack() as held:
        together = Together(folder, SystemClock(), held, **values)
        sections = together.status(NETWORK.peer_id)()
        assert sections["network"] == {"id": NETWORK.peer_id.hex()[:8]}
        with pytest.raises(IdentityInUse), contextlib.ExitStack() as other:
            Together(folder, SystemClock(), other, **values)
    with contextlib.ExitStack() as held:
        Together(folder, SystemClock(), held, **values)
