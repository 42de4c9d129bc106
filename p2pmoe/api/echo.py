"""The field `echo`: the prompt before the completion, its tokens scored if asked for.

Evaluation tools read the log probabilities of a text that way. There is one item for
each token of the prompt, BOS included; the first has no log probability.
"""

from collections.abc import Sequence
from dataclasses import replace

from p2pmoe.api.answers import Piece
from p2pmoe.api.logprobs import ScoredToken
from p2pmoe.backbone.generation import FailureKind, GenerationFailed, TokenLogprobs
from p2pmoe.text.stopping import CompletionText, StopRules
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["echoed_prompt"]


def echoed_prompt(
    ids: Sequence[int], scores: Sequence[TokenLogprobs], tokenizer: Tokenizer
) -> Piece:
    """Return the prompt as the first piece of an answer.

    `scores` are one for each of `ids`, or none.

    Raises:
        GenerationFailed: The scores are not those of the prompt.
    """
    text = CompletionText(StopRules(max_tokens=len(ids) + 1), tokenizer.token_bytes)
    deltas = [text.accept(ids), text.finish()]
    placed = [each for delta in deltas for each in delta.placed]
    whole = "".join(delta.text for delta in deltas)
    if tokenizer.vocabulary.add_space and whole.startswith(" "):
        whole = whole[1:]
        placed = [replace(each, start=max(0, each.start - 1)) for each in placed]
    if not scores:
        return Piece(text=whole)
    if [score.token for score in scores] != list(ids):
        reason = "log probabilities of the prompt are missing"
        raise GenerationFailed(FailureKind.INTERNAL, reason)
    scored = [
        ScoredToken(placed=each, score=score)
        for each, score in zip(placed, scores, strict=True)
    ]
    return Piece(text=whole, scored=tuple(scored))
