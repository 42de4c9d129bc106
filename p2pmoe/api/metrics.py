"""Counters of the API, and the page that shows them with everyone else's."""

from collections import Counter
from collections.abc import Callable, Sequence

from p2pmoe.prometheus import render_metric

__all__ = ["ApiCounters", "metrics_page"]


class ApiCounters:
    """What the API counts; read and written on the trio thread only."""

    def __init__(self) -> None:
        """Start at zero."""
        self.active = 0  # completions under way
        self._answers: Counter[tuple[str, str]] = Counter()
        self._tokens: Counter[str] = Counter()

    def answered(self, route: str, outcome: str) -> None:
        """Count one request of a route: its status, or how its stream ended."""
        self._answers[route, outcome] += 1

    def delivered(self, n_prompt: int, n_completion: int) -> None:
        """Count the tokens of an answer."""
        self._tokens["prompt"] += n_prompt
        self._tokens["completion"] += n_completion

    def render(self) -> str:
        """Return the samples as text."""
        answers = [
            ({"route": route, "outcome": outcome}, count)
            for (route, outcome), count in sorted(self._answers.items())
        ]
        tokens = [({"kind": kind}, n) for kind, n in sorted(self._tokens.items())]
        return "".join(
            (
                render_metric("p2pmoe_api_requests_total", answers),
                render_metric("p2pmoe_api_tokens_total", tokens),
                render_metric("p2pmoe_api_requests_active", [({}, self.active)]),
            )
        )


def metrics_page(counters: ApiCounters, others: Sequence[Callable[[], str]]) -> str:
    """Return the whole page: the API's samples, then those of `others`."""
    pages = [counters.render(), *(other() for other in others)]
    return "".join(page if page.endswith("\n") else page + "\n" for page in pages)
