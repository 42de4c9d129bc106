"""What an operator may say about drafting tokens and fetching ahead: checked values.

Drafting never changes a token, so these options are about time and traffic alone.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from p2pmoe.errors import ConfigurationError

__all__ = [
    "MAX_DRAFT_TOKENS",
    "PrefetchPolicy",
    "SpeculationPolicy",
    "SpeculationWish",
]

MAX_DRAFT_TOKENS = 64


class SpeculationPolicy(StrEnum):
    """Who may draft tokens; whether it pays is chosen before each pass."""

    AUTO = "auto"  # whoever there is
    OFF = "off"
    NGRAM = "ngram"  # only what followed the same tokens before
    SELF = "self"  # only the model itself, with the experts at hand
    MODEL = "model"  # only the model of `--draft`


class PrefetchPolicy(StrEnum):
    """Whether weights that a draft foresees may be fetched before the pass."""

    AUTO = "auto"  # where it pays
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationWish:
    """How to draft: `draft` is a model file of the same vocabulary.

    `draft_tokens` is the most that are drafted at once for a sequence.
    """

    policy: SpeculationPolicy = SpeculationPolicy.AUTO
    draft: Path | None = None
    draft_tokens: int = 16
    prefetch: PrefetchPolicy = PrefetchPolicy.AUTO

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        if not 1 <= self.draft_tokens <= MAX_DRAFT_TOKENS:
            raise ConfigurationError(
                f"--draft-tokens {self.draft_tokens} is not 1 to {MAX_DRAFT_TOKENS}",
                advice="to draft nothing, use --speculate off",
            )
        uses_model = self.policy in {SpeculationPolicy.AUTO, SpeculationPolicy.MODEL}
        if self.draft is not None and not uses_model:
            raise ConfigurationError(
                f"--draft goes with --speculate auto or model, not {self.policy}",
                advice="leave out one of the two",
            )
        if self.draft is None and self.policy is SpeculationPolicy.MODEL:
            raise ConfigurationError(
                "--speculate model without a model", advice="give --draft FILE"
            )
