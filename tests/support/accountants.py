"""What accountants' programs make of a journal: every balance, in micro-credits."""

import json
import subprocess
from pathlib import Path

from tests.support.shared import tool_path

__all__ = ["beancounts", "hledgers"]


def hledgers(text: str, tmp_path: Path) -> dict[str, int]:
    """Return every account's balance as hledger reads it, in micro-credits."""
    path = tmp_path / "x.journal"
    path.write_text(text)
    command = [tool_path("hledger"), "-f", str(path)]
    subprocess.run([*command, "check", "ordereddates"], check=True, capture_output=True)
    output = subprocess.run(
        [*command, "balance", "--no-elide", "--flat", "-O", "json"],
        check=True,
        capture_output=True,
    ).stdout
    rows, _ = json.loads(output)
    found: dict[str, int] = {}
    for name, _, _, quantities in rows:
        (amount,) = quantities
        assert amount["acommodity"] == "CREDIT"
        quantity = amount["aquantity"]
        scale = 10 ** (6 - quantity["decimalPlaces"])
        found[name] = quantity["decimalMantissa"] * scale
    return found


def beancounts(text: str, tmp_path: Path) -> dict[str, int]:
    """Return every account's balance as beancount reads it, in micro-credits."""
    from beancount import loader
    from beancount.core.data import Transaction

    path = tmp_path / "x.beancount"
    path.write_text(text)
    entries, errors, _ = loader.load_file(str(path))
    assert errors == []
    found: dict[str, int] = {}
    for entry in entries:
        if isinstance(entry, Transaction):
            for posting in entry.postings:
                scaled = posting.units.number.scaleb(6)
                assert scaled == int(scaled)
                name = posting.account
                found[name] = found.get(name, 0) + int(scaled)
    return {name: sum_uc for name, sum_uc in found.items() if sum_uc}
