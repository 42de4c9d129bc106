"""The timeline as an SVG: one panel a kind of figure, changes as vertical lines.

Needs matplotlib (`p2pmoe[plan]`), which is imported on call. Nothing of it depends on
a display or on the time of drawing: the same runs give the same picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.timeline import Moment, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_timeline"]

# Panels from the top: title, unit of the figures in it, what values are multiplied by.
_PANELS: Final = (
    ("perplexity", "", 1.0),
    ("share, %", "share", 100.0),
    ("difference of log probabilities, nats", "nats", 1.0),
    ("latency, ms", "s", 1000.0),
)
_ONE_SCALE: Final = frozenset({"share", "s"})  # of any input; others get panels each
_SHOWN_LATENCIES: Final = ("first_token_p50_s", "per_token_p50_s", "per_token_p99_s")
_WIDTH_IN: Final = 10.0
_PANEL_IN: Final = 2.2
_LINE_IN: Final = 0.2
_MOST_LINES: Final = 20
_MOST_PANELS: Final = 16
_MOST_NAMES: Final = 6
_MARKS: Final = "osD^vPX*<>hp"
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "p2pmoe",  # else ids are random
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    scale: float
    series: tuple[Series, ...]


def draw_timeline(
    moments: Sequence[Moment], series: Sequence[Series], path: Path
) -> None:
    """Write the picture to `path`.

    Raises:
        ConfigurationError: the file cannot be written, or there is nothing to draw.
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 - of an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - of an extra

    panels = _panels(series)[-_MOST_PANELS:]
    if not panels:
        raise ConfigurationError("no run has a figure to draw")
    lines = _lines(moments)
    heights = [_PANEL_IN] * len(panels) + [_LINE_IN * len(lines)] * bool(lines)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_IN, 0.8 + sum(heights)), layout="constrained")
        rows = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
        axes = list(rows[:, 0])
        for axis, panel in zip(axes, panels, strict=False):
            _draw_panel(axis, panel)
            _draw_changes(axis, moments)
            axis.set_xlim(-0.5, len(moments) - 0.5)
            axis.set_xticks([])
        _number_changes(axes[0], moments)
        _name_runs(axes[len(panels) - 1], moments)
        if lines:
            axes[-1].axis("off")
            text = "\n".join(lines)
            axes[-1].text(0.0, 1.0, text, va="top", fontsize=8, color="0.25")
        try:
            figure.savefig(path, format="svg", metadata={"Date": None})
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigurationError(
                f"cannot write the picture {path}: {reason}",
                advice="name a file that can be written with --plot",
            ) from error


def _panels(series: Sequence[Series]) -> list[_Panel]:
    """Return what is drawn; inputs whose values are of different size are apart."""
    panels: list[_Panel] = []
    for title, unit, scale in _PANELS:
        found = [s for s in series if _is_in(s, unit)]
        if unit in _ONE_SCALE:
            groups = [found]
        else:
            inputs = sorted({s.input for s in found})
            groups = [[s for s in found if s.input == number] for number in inputs]
        for number, group in enumerate(groups, 1):
            name = f"{title} (input {number})" if len(groups) > 1 else title
            if group:
                panels.append(_Panel(name, scale, tuple(group)))
    return panels


def _is_in(series: Series, unit: str) -> bool:
    if FIGURES[series.figure].unit != unit:
        return False
    return unit != "s" or series.figure in _SHOWN_LATENCIES


def _draw_panel(axis: "Axes", panel: _Panel) -> None:
    several = {s.figure for s in panel.series if s.input > 1}
    for number, each in enumerate(panel.series):
        name = each.figure.removesuffix("_s").replace("_", " ")
        label = f"{name} ({each.input})" if each.figure in several else name
        axis.plot(
            [at for at, _ in each.points],
            [panel.scale * value for _, value in each.points],
            marker=_MARKS[number % len(_MARKS)],
            markersize=5,
            linewidth=1.2,
            label=label,
        )
    axis.set_title(panel.title, loc="left", fontsize=9, fontweight="bold")
    axis.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.margins(y=0.15)
    axis.ticklabel_format(axis="y", useOffset=False)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _changes(moments: Sequence[Moment]) -> list[tuple[int, tuple[str, ...]]]:
    """Return before which runs something changed, and what."""
    return [(n, m.changed) for n, m in enumerate(moments) if n and m.changed]


def _draw_changes(axis: "Axes", moments: Sequence[Moment]) -> None:
    for at, _ in _changes(moments):
        axis.axvline(at - 0.5, color="0.55", linewidth=0.8, linestyle="--")


def _number_changes(axis: "Axes", moments: Sequence[Moment]) -> None:
    for number, (at, _) in enumerate(_changes(moments), 1):
        axis.annotate(
            str(number),
            (at - 0.5, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="0.25",
        )


def _lines(moments: Sequence[Moment]) -> list[str]:
    """Return a line a change, for below the panels; the last ones, if many."""
    lines = [
        f"{number}  {', '.join(map(_plain, names[:_MOST_NAMES]))}"
        + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
        for number, (_, names) in enumerate(_changes(moments), 1)
    ]
    return ["what changed:", *lines[-_MOST_LINES:]] if lines else []


def _name_runs(axis: "Axes", moments: Sequence[Moment]) -> None:
    step = max(1, len(moments) // 12)
    places = range(0, len(moments), step)
    axis.set_xticks(list(places))
    axis.set_xticklabels([_label(moments[n]) for n in places])


def _label(moment: Moment) -> str:
    day, _, time = moment.made.partition("T")
    return f"{day}\n{time[:5]}\n{moment.digest[:8] or 'unknown'}"


def _plain(text: str) -> str:
    """Return a text in which nothing is a formula, and nothing steers."""
    return "".join(c if c.isprintable() else "?" for c in text)[:40].replace("$", r"\$")
