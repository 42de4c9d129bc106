"""A text file made ready to be measured on: read, bounded, cut into windows."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2pmoe.evaluate.errors import SetRefused
from p2pmoe.evaluate.measure_text import TextPlan
from p2pmoe.evaluate.run_record import MAX_POSITIONS, MAX_WINDOWS
from p2pmoe.evaluate.windows import windows_by_characters, windows_by_ids
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["Cutting", "plan_text"]

MAX_TEXT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """How a text is cut; `n_windows` 0 takes all of it."""

    window_tokens: int = 256
    n_windows: int = 32
    n_continuations: int = 8
    continuation_tokens: int = 32


def plan_text(
    path: Path, cutting: Cutting, load: Callable[[], Tokenizer] | None
) -> TextPlan:
    """Read and cut a text; with `load` into windows of that tokenizer's ids.

    Raises:
        SetRefused: the file cannot be read, is not UTF-8, too large, or too short for
            one window.
        TokenizerError, TextRefused: as the tokenizer does.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_TEXT_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SetRefused(
            f"cannot read the text {path}: {reason}",
            advice="name a file that can be read",
        ) from error
    except UnicodeDecodeError as error:
        raise SetRefused(f"the text {path} is not UTF-8") from error
    if len(raw) > MAX_TEXT_BYTES:
        raise SetRefused(f"the text {path} is larger than {MAX_TEXT_BYTES} bytes")
    n_tokens = cutting.window_tokens
    most = min(cutting.n_windows or MAX_WINDOWS, MAX_WINDOWS, MAX_POSITIONS // n_tokens)
    if load is None:
        windows = windows_by_characters(text, n_tokens, most)
    else:
        tokenizer = load()
        has_bos = tokenizer.vocabulary.add_bos
        ids = tokenizer.encode(text, bos=has_bos)
        windows = windows_by_ids(ids, n_tokens, most, has_bos=has_bos)
    if not windows:
        raise SetRefused(
            f"the text {path} is shorter than a window of {n_tokens} tokens",
            advice="give a longer text, or a smaller --window-tokens",
        )
    return TextPlan(
        sha256=hashlib.sha256(raw).hexdigest(),
        windows=windows,
        window_tokens=n_tokens,
        n_continuations=min(cutting.n_continuations, len(windows)),
        continuation_tokens=cutting.continuation_tokens,
    )
