"""Multi-head latent attention (MLA) over a compressed cache, after DeepSeek-V2.

For a normed row a, per layer (arXiv 2405.04434, section 2.1.2, the absorbed form):

    q           = Wq a,  or  Wqb norm_q(Wqa a)          per head: [q_nope | q_rope]
    [c | k]     = Wkva a,  c = norm_kv(c),  k = turn(k)  one key for all heads
    query_h     = [Wkb_h q_nope_h | turn(q_rope_h)]
    mixed_h     = attend(query_h, keys = [c | k], values = c)
    result      = Wo concat_h(Wvb_h mixed_h)

The cache keeps the latent c and the turned key k alone, whatever the number of heads;
heads' keys and values are never made. Scores are scaled by 1 / sqrt(n_nope + n_rope)
times the `score_factor` of the rotary settings. The latent lies in the cache twice, as
keys and as values, because `attend` reads keys dimension by dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.head_products import HeadProducts
from p2pmoe.model.kv_cache import LayerCache, empty_layer
from p2pmoe.model.linear import Linear
from p2pmoe.model.rope import Rope
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.step import StepRows

__all__ = ["LatentQuery", "LatentSizes", "MlaLayer"]

_LANES: Final = 8
_BLOCK: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSizes:
    """The widths of latent attention; ModelRefused if they do not fit each other."""

    n_heads: int
    n_nope: int  # of a head's query, what is not turned
    n_rope: int  # of a head's query, and of the shared key
    n_value: int  # of a head's value
    n_latent: int  # kv_lora_rank
    n_query: int | None = None  # q_lora_rank; None: queries come of the row itself

    def __post_init__(self) -> None:
        """Refuse what attention or a kernel cannot take."""
        if self.n_nope < 1 or self.n_rope < 1:
            raise ModelRefused(
                f"{self.n_rope} values of a head of {self.n_head} are turned"
            )
        if self.n_latent % _BLOCK or self.n_rope % _LANES:
            raise ModelRefused(
                f"a latent of {self.n_latent} and a key of {self.n_rope} values"
            )

    @property
    def n_head(self) -> int:
        """Values of a head's query."""
        return self.n_nope + self.n_rope

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one layer's cache takes for a position."""
        return (2 * self.n_latent + self.n_rope) * 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentQuery:
    """The second step of queries that are compressed, too."""

    norm: Floats  # [n_query]
    up: Linear  # from n_query to n_heads * n_head


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MlaLayer:
    """One layer's latent attention; the layer's norm and residual are the decoder's."""

    sizes: LatentSizes
    down: Linear  # to the query (or what makes it), then latent and shared key
    query: LatentQuery | None
    latent_norm: Floats  # [n_latent]
    absorb: HeadProducts  # n_nope -> n_latent
    expand: HeadProducts  # n_latent -> n_value
    output: Linear  # from n_heads * n_value
    rope: Rope
    rule: AttentionRule
    eps: np.float32
    operations: RowOperations

    def empty_cache(self, n_tokens: int, limit: int) -> LayerCache:
        """Return memory for `n_tokens` positions; it is the same for any `limit`."""
        del limit
        own = self.sizes
        return empty_layer(n_tokens, 1, own.n_latent + own.n_rope, own.n_latent)

    def __call__(self, a: Floats, kept: Sequence[LayerCache], rows: StepRows) -> Floats:
        """Return the output f32 [n, n_embd] and write the rows' latents and keys.

        Args:
            a: f32 [n, n_embd], normed.
            kept: The layer's cache of each run, written up to its first position.
            rows: Which rows belong together, and their positions.

        Raises:
            NonFinite: a matrix takes coded rows and the input is not finite.
        """
        n, own = len(a), self.sizes
        queries, latent, key = self._project(a)
        self._turn(queries, key, rows)
        absorbed = self.absorb(queries[:, :, : own.n_nope])
        absorbed = np.concatenate((absorbed, queries[:, :, own.n_nope :]), axis=2)
        mixed = self.operations.attend_runs(
            absorbed[:, None],
            np.concatenate((latent, key), axis=1)[:, None],
            latent[:, None],
            rows.attention_runs(kept),
            self.rule,
        )
        return self.output(self.expand(mixed[:, 0]).reshape(n, -1))

    def _project(self, a: Floats) -> tuple[Floats, Floats, Floats]:
        """Return queries [n, n_heads, n_head], latents normed, keys not yet turned."""
        own = self.sizes
        rows = self.down(a)
        n_first = rows.shape[1] - own.n_latent - own.n_rope
        queries = rows[:, :n_first]
        if self.query is not None:
            queries = self.query.up(self._norm(queries, self.query.norm))
        latent = self._norm(rows[:, n_first : -own.n_rope], self.latent_norm)
        heads = queries.reshape(len(a), own.n_heads, own.n_head)
        return heads, latent, rows[:, -own.n_rope :]

    def _norm(self, rows: Floats, weight: Floats) -> Floats:
        rows = np.ascontiguousarray(rows)
        return self.operations.rms_norm(rows, weight, self.eps)

    def _turn(self, queries: Floats, key: Floats, rows: StepRows) -> None:
        """Turn the queries' last values and the shared key, in place."""
        own = self.sizes
        n = len(key)
        heads = np.empty((n, own.n_heads + 1, own.n_rope), np.float32)
        heads[:, :-1], heads[:, -1] = queries[:, :, own.n_nope :], key
        tables = rows.tables(self.rope)
        self.operations.turn(heads, *tables, interleaved=self.rope.interleaved)
        queries[:, :, own.n_nope :], key[:] = heads[:, :-1], heads[:, -1]
