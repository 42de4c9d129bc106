"""The passes of a trace file that somebody wants to look at: some of them, bounded."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.format import Given, TraceRecord

__all__ = ["MAX_KEPT_LAYERS", "KeptPasses", "keep_passes"]

MAX_KEPT_LAYERS: Final = 50_000  # that asked for something, in all passes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPasses:
    """Passes `n_skipped` + 1 and on of `n_all`; the first `n_prompt` are the prompt's.

    `n_prompt` counts the one that gave the first token, which is a prompt's too.
    """

    passes: tuple[PassTrace, ...]
    n_all: int
    n_prompt: int
    n_skipped: int
    prompt: str = ""

    @property
    def decoding(self) -> tuple[PassTrace, ...]:
        """Those kept that are not the prompt's."""
        return self.passes[max(0, self.n_prompt - self.n_skipped) :]


def keep_passes(records: Iterable[TraceRecord], *, skip: int, most: int) -> KeptPasses:
    """Return up to `most` passes behind the first `skip`; TraceUnreadable.

    Fewer, if together they have more than `MAX_KEPT_LAYERS` layers.
    """
    kept: list[PassTrace] = []
    n_all = n_prompt = n_layers = 0
    prompt, in_prompt, has_room = "", True, True
    for record in records:
        if isinstance(record, Given):
            prompt = str(record.fields.get("prompt", ""))
        if not isinstance(record, PassTrace):
            continue
        n_all += 1
        if in_prompt:
            n_prompt += 1
            in_prompt = not record.n_committed
        if n_all <= skip or len(kept) >= most or not has_room:
            continue
        n_layers += len(record.layers)
        has_room = n_layers <= MAX_KEPT_LAYERS
        if has_room:
            kept.append(record)
    return KeptPasses(
        passes=tuple(kept),
        n_all=n_all,
        n_prompt=n_prompt,
        n_skipped=skip,
        prompt=prompt,
    )
