"""`p2pmoe market prices|coverage|why`: what the market's prices are, and why.

Read from the market's folder, as of its last look at prices: the market may run or not.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.market.pricing.model import ModelPrices

__all__ = ["add_price_commands"]

_SHOWN = 20  # of the dearest, on a terminal

Expert = Annotated[
    str, typer.Argument(metavar="EXPERT", help="LAYER/EXPERT, such as 3/17.")
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The folder that the market runs on."),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="ID", help="First digits of the manifest's hash."),
]
Top = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="The N dearest; else 20 on a terminal, or all."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def add_price_commands(group: typer.Typer) -> None:
    """Add the commands to the group `market`."""
    group.command("prices")(_prices)
    group.command("coverage")(_coverage)
    group.command("why")(_why)


def _prices(
    model: Model = None, top: Top = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Print what a row of each expert costs, the dearest first."""
    from p2pmoe.cli.tables import is_on_terminal, print_json, print_rows
    from p2pmoe.market.pricing.report import price_rows

    name, prices = _one(data, model)
    rows = price_rows(prices)
    shown = top or (_SHOWN if is_on_terminal() and not as_json else len(rows))
    if as_json:
        print_json({**_head(name, prices), "experts": rows[:shown]})
        return
    _tell(name, prices)
    columns = ("expert", "price_uc", "multiplier", "target", "coverage", "live")
    print_rows((*columns, "domains", "paid_rows"), rows[:shown], "Prices")
    if len(rows) > shown:
        print(f"{len(rows) - shown} more, see --top", file=sys.stderr)


def _coverage(model: Model = None, data: Data = None, as_json: AsJson = False) -> None:
    """Print how well the experts of each layer are held."""
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.market.pricing.report import layers_of

    name, prices = _one(data, model)
    rows = [
        {
            "layer": each.layer,
            "experts": each.n_experts,
            "held": each.n_held,
            "below_target": each.n_short,
            "least": f"{each.least / 1000:.3f}",
            "mean": f"{each.mean / 1000:.3f}",
            "dropped_lately": f"{each.held_back / 1000:.3f}",
        }
        for each in layers_of(prices)
    ]
    if as_json:
        print_json({**_head(name, prices), "layers": rows})
        return
    _tell(name, prices)
    columns = ("layer", "experts", "held", "below_target", "least", "mean")
    print_rows((*columns, "dropped_lately"), rows, "Coverage, in replicas")


def _why(
    expert: Expert, model: Model = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Print step by step what the price of an expert follows from."""
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.market.pricing.report import reasons_of

    packed = _packed(expert)
    name, prices = _one(data, model)
    try:
        reasons = reasons_of(prices, packed)
    except KeyError as exc:
        raise ConfigurationError(
            f"model {name.hex()[:8]} has no expert {expert}",
            advice="name one that `p2pmoe market prices` lists",
        ) from exc
    if as_json:
        print_json({**_head(name, prices), **reasons})
        return
    _tell(name, prices)
    print_values(reasons)


def _one(data: Path | None, prefix: str | None) -> "tuple[bytes, ModelPrices]":
    """Return the model that is meant, with its manifest's hash."""
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.market.pricing.memory import PRICES_FILE, read_models
    from p2pmoe.network.folder import default_folder

    path = (data or default_folder()) / PRICES_FILE
    models = read_models(path)
    fitting = [name for name in models if name.hex().startswith((prefix or "").lower())]
    if not models:
        raise ConfigurationError(
            f"{path} holds no prices",
            advice="name the folder that the market runs on with --data; it is "
            "written when the first model is listed",
        )
    if len(fitting) == 1:
        return fitting[0], models[fitting[0]]
    ids = ", ".join(name.hex()[:8] for name in (fitting or list(models))[:8])
    what = "no model begins" if not fitting else f"{len(fitting)} models begin"
    of = f"{what} with {prefix[:64]!r}" if prefix else f"{len(fitting)} models"
    raise ConfigurationError(of, advice=f"name one with --model: {ids}")


def _packed(text: str) -> int:
    from mobile_worker.expert_id import ExpertId
    from p2pmoe.errors import ConfigurationError

    layer, _, index = text.replace(".", "/", 1).partition("/")
    if len(text) <= 16 and layer.isdecimal() and index.isdecimal():
        try:
            return ExpertId(int(layer), int(index)).packed
        except ValueError:
            pass
    raise ConfigurationError(
        f"{text[:40]!r} names no expert", advice="write LAYER/EXPERT, such as 3/17"
    )


def _head(name: bytes, prices: "ModelPrices") -> dict[str, object]:
    from ledger.periods import format_us

    return {
        "model": name.hex(),
        "epoch": prices.epoch,
        "base_uc": prices.base_uc,
        "as_of": format_us(prices.as_of_us),
    }


def _tell(name: bytes, prices: "ModelPrices") -> None:
    head = _head(name, prices)
    print(
        f"model {name.hex()[:8]}, price epoch {head['epoch']}, base price "
        f"{head['base_uc']} uc a row, as of {head['as_of']}",
        file=sys.stderr,
    )
