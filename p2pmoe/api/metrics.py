"""Counters of the API, and the page that shows them with everyone else's.

Text form of Prometheus: one line a sample, `name{label="value"} number`.
"""

from collections import Counter
from collections.abc import Callable, Sequence

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
        lines = ["# TYPE p2pmoe_api_requests_total counter"]
        for (route, outcome), count in sorted(self._answers.items()):
            labels = f'route="{route}",outcome="{outcome}"'
            lines.append(f"p2pmoe_api_requests_total{{{labels}}} {count}")
        lines.append("# TYPE p2pmoe_api_tokens_total counter")
        for kind, count in sorted(self._tokens.items()):
            lines.append(f'p2pmoe_api_tokens_total{{kind="{kind}"}} {count}')
        lines.append("# TYPE p2pmoe_api_requests_active gauge")
        lines.append(f"p2pmoe_api_requests_active {self.active}")
        return "\n".join(lines) + "\n"


def metrics_page(counters: ApiCounters, others: Sequence[Callable[[], str]]) -> str:
    """Return the whole page: the API's samples, then those of `others`."""
    pages = [counters.render(), *(other() for other in others)]
    return "".join(page if page.endswith("\n") else page + "\n" for page in pages)
