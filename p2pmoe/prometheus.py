"""The text form of Prometheus: one metric, its type and a line for each sample. Pure.

Source: the Prometheus text exposition format, version 0.0.4. Names and labels are our
own and need no escaping.
"""

from collections.abc import Iterable, Mapping

__all__ = ["render_metric"]


def render_metric(name: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> str:
    """Return one metric as text, from labels and values; a `_total` is a counter."""
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"# TYPE {name} {kind}\n"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n")
    return "".join(lines)
