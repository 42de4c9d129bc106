"""The options of `serve` about drafting tokens, and what they come to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.speculating import SpeculationWish

__all__ = ["Draft", "DraftTokens", "Prefetch", "Speculate", "speculation_wish"]

Speculate = Annotated[
    str,
    typer.Option(
        metavar="WHO",
        help="Who may draft tokens, where that pays: auto (whoever there is), off, "
        "ngram (what came before), self (the model, with the experts at hand), model "
        "(that of --draft).",
    ),
]
Draft = Annotated[
    Path | None,
    typer.Option(
        "--draft",
        metavar="FILE",
        help="A small model of the same vocabulary that drafts tokens.",
    ),
]
DraftTokens = Annotated[
    int,
    typer.Option(
        metavar="N", help="How many tokens are drafted at once at most, 1 to 64."
    ),
]
Prefetch = Annotated[
    str,
    typer.Option(
        metavar="POLICY",
        help="Fetch the weights of experts that a draft foresees: auto (where it "
        "pays), off.",
    ),
]


def speculation_wish(
    speculate: str, draft: Path | None, draft_tokens: int, prefetch: str
) -> "SpeculationWish":
    """Return what the options ask for; ConfigurationError names one that is wrong."""
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.speculating import (
        PrefetchPolicy,
        SpeculationPolicy,
        SpeculationWish,
    )

    try:
        policy = SpeculationPolicy(speculate)
    except ValueError as error:
        raise ConfigurationError(
            f"unknown --speculate {speculate!r}",
            advice="use auto, off, ngram, self or model",
        ) from error
    try:
        fetching = PrefetchPolicy(prefetch)
    except ValueError as error:
        raise ConfigurationError(
            f"unknown --prefetch {prefetch!r}", advice="use auto or off"
        ) from error
    return SpeculationWish(
        policy=policy, draft=draft, draft_tokens=draft_tokens, prefetch=fetching
    )
