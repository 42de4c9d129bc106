"""What the market's prices are made of, as a file: written before prices are told.

It holds for each model the table in force with its number, how each expert stood, the
paid demand, and what domains gave up lately, so that a market that restarts goes on
with the table that it had. It is replaced whole, as `market.json` is. Whoever reads it
sees what the prices follow from: `p2pmoe market prices`, `coverage` and `why` do.

JSON: {"version": 1, "models": {manifest hash: {"epoch", "base_uc", "as_of_us",
"counted_to_us", "experts": [[expert, units, target, counted, live, domains, multiplier,
price], ...], "drops": [[expert, domain, until_us, per mille], ...]}}}. At most 1,000
models are kept, the ones looked at longest ago are forgotten first.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger.amounts import MAX_AMOUNT_UC
from p2pmoe.market.coverage import MAX_TARGET
from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.market.pricing.drops import Drop, Drops
from p2pmoe.market.pricing.epochs import MAX_EPOCH
from p2pmoe.market.pricing.holdings import Coverage, DomainHoldings
from p2pmoe.market.pricing.model import ExpertRow, ModelPrices
from p2pmoe.market.pricing.paid import MAX_TIME_US, PaidDemand
from p2pmoe.market.pricing.scarcity import MAX_MULTIPLIER, MIN_MULTIPLIER
from p2pmoe.strict_json import NotStrict, parse_json

__all__ = ["PRICES_FILE", "encode_models", "parse_models", "read_models"]

PRICES_FILE = "market-prices.json"

_VERSION = 1
_MAX_MODELS = 1_000
_MAX_DEPTH = 6
_MAX_DIGITS = 20
_MAX_SUM = 1 << 50
_U32 = (1 << 32) - 1
_MAX_DOMAIN_CHARS = 200


def encode_models(models: Mapping[bytes, ModelPrices]) -> str:
    """Return the file's text."""
    newest = sorted(models, key=lambda name: models[name].as_of_us)[-_MAX_MODELS:]
    parts = {name.hex(): _model(models[name]) for name in newest}
    return json.dumps({"version": _VERSION, "models": parts}, separators=(",", ":"))


def parse_models(text: str) -> dict[bytes, ModelPrices]:
    """Read the file's text back.

    Raises:
        MemoryFileBroken: it is not of this form.
    """
    try:
        parts = parse_json(text, max_depth=_MAX_DEPTH, max_digits=_MAX_DIGITS)
        if parts["version"] != _VERSION:
            raise MemoryFileBroken(f"version {parts['version']!r} is unknown")
        if len(parts["models"]) > _MAX_MODELS:
            raise MemoryFileBroken(f"{len(parts['models'])} models")
        return {_name(name): _parsed(told) for name, told in parts["models"].items()}
    except (NotStrict, ValueError, LookupError, TypeError, AttributeError) as exc:
        raise MemoryFileBroken("not the file of the market's prices") from exc


def read_models(path: Path) -> dict[bytes, ModelPrices]:
    """Read the file; there are no prices yet if there is none.

    Raises:
        MemoryFileBroken: it cannot be read, or is of another form.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as exc:
        raise MemoryFileBroken(f"cannot read {path}: {exc}") from exc
    try:
        return parse_models(text)
    except MemoryFileBroken as exc:
        raise MemoryFileBroken(f"{path}: {exc}") from exc


def _model(model: ModelPrices) -> dict[str, object]:
    return {
        "epoch": model.epoch,
        "base_uc": model.base_uc,
        "as_of_us": model.as_of_us,
        "counted_to_us": model.paid.counted_to_us,
        "experts": [
            [
                row.expert,
                model.paid.units.get(row.expert, 0),
                row.target,
                row.coverage.counted,
                row.coverage.live,
                row.coverage.n_domains,
                row.multiplier,
                row.price,
            ]
            for row in model.rows.values()
        ],
        "drops": [list(drop) for drop in model.holdings.drops],
    }


def _parsed(told: dict[str, Any]) -> ModelPrices:
    rows = {row.expert: row for row in map(_row, told["experts"])}
    if len(rows) != len(told["experts"]) or list(rows) != sorted(rows):
        raise MemoryFileBroken("experts are not in order")
    units = {row.expert: row.units for row in rows.values() if row.units}
    drops = Drops(_drop(*each) for each in told["drops"])
    return ModelPrices(
        rows=rows,
        epoch=_whole(told["epoch"], MAX_EPOCH),
        base_uc=_whole(told["base_uc"], MAX_AMOUNT_UC),
        as_of_us=_whole(told["as_of_us"], MAX_TIME_US),
        paid=PaidDemand(units, _whole(told["counted_to_us"], MAX_TIME_US)),
        holdings=DomainHoldings(drops),
    )


def _row(told: Sequence[Any]) -> ExpertRow:
    expert, units, target, counted, live, n_domains, multiplier, price = told
    if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
        raise MemoryFileBroken(f"a multiplier of {multiplier!r}")
    return ExpertRow(
        expert=_whole(expert, _U32),
        units=_whole(units, _MAX_SUM),
        target=_whole(target, MAX_TARGET),
        coverage=Coverage(
            _whole(counted, _MAX_SUM), _whole(live, _MAX_SUM), _whole(n_domains, _U32)
        ),
        multiplier=_whole(multiplier, MAX_MULTIPLIER),
        price=_whole(price, _U32),
    )


def _drop(expert: object, domain: object, until_us: object, permille: object) -> Drop:
    if not isinstance(domain, str) or len(domain) > _MAX_DOMAIN_CHARS:
        raise MemoryFileBroken("a drop of no domain")
    return Drop(
        _whole(expert, _U32),
        domain,
        _whole(until_us, MAX_TIME_US),
        _whole(permille, _MAX_SUM),
    )


def _name(text: str) -> bytes:
    name = bytes.fromhex(text)
    if len(name) != 32:
        raise MemoryFileBroken(f"{text[:80]!r} names no model")
    return name


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise MemoryFileBroken(f"{value!r:.40} is not within 0..{most}")
    return value
