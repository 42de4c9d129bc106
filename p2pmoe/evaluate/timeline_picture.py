"""The timeline as an SVG: one panel a kind of figure, changes as vertical lines.

Needs matplotlib (`p2pmoe[plan]`), which is imported on call. Nothing of it depends on
a display or on the time of drawing: the same runs give the same picture.
"""

from collections.abc import Sequence
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
_SHOWN_LATENCIES: Final = ("first_token_p50_s", "per_token_p50_s", "per_token_p99_s")
_WIDTH_IN: Final = 10.0
_PANEL_IN: Final = 2.2
_MOST_NAMES: Final = 3
_MARKS: Final = "osD^vPX*<>hp"
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "p2pmoe",  # else ids are random
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_timeline(
    moments: Sequence[Moment], series: Sequence[Series], path: Path
) -> None:
    """Write the picture to `path`.

    Raises:
        ConfigurationError: the file cannot be written.
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 - of an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - of an extra

    panels = [
        (title, scale, found)
        for title, unit, scale in _PANELS
        if (found := [s for s in series if _is_in(s, unit)])
    ]
    with mpl.rc_context(_STYLE):
        figure = Figure(
            figsize=(_WIDTH_IN, 1.4 + _PANEL_IN * len(panels)), layout="constrained"
        )
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (title, scale, found) in zip(axes, panels, strict=True):
            _draw_panel(axis, title, scale, found)
            _draw_changes(axis, moments)
        _name_changes(axes[0], moments)
        _name_runs(axes[-1], moments)
        try:
            figure.savefig(path, format="svg", metadata={"Date": None})
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigurationError(
                f"cannot write the picture {path}: {reason}",
                advice="name a file that can be written with --plot",
            ) from error


def _is_in(series: Series, unit: str) -> bool:
    if FIGURES[series.figure].unit != unit:
        return False
    return unit != "s" or series.figure in _SHOWN_LATENCIES


def _draw_panel(
    axis: "Axes", title: str, scale: float, found: Sequence[Series]
) -> None:
    several = {s.figure for s in found if s.input > 1}
    for number, each in enumerate(found):
        name = each.figure.removesuffix("_s").replace("_", " ")
        label = f"{name} ({each.input})" if each.figure in several else name
        axis.plot(
            [at for at, _ in each.points],
            [scale * value for _, value in each.points],
            marker=_MARKS[number % len(_MARKS)],
            markersize=5,
            linewidth=1.2,
            label=label,
        )
    axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axis.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.margins(y=0.15)
    axis.ticklabel_format(axis="y", useOffset=False)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _draw_changes(axis: "Axes", moments: Sequence[Moment]) -> None:
    for number, moment in enumerate(moments):
        if number and moment.changed:
            axis.axvline(number - 0.5, color="0.55", linewidth=0.8, linestyle="--")


def _name_changes(axis: "Axes", moments: Sequence[Moment]) -> None:
    for number, moment in enumerate(moments):
        if not number or not moment.changed:
            continue
        names = [_plain(name) for name in moment.changed[:_MOST_NAMES]]
        more = len(moment.changed) - len(names)
        text = "\n".join([*names, f"and {more} more"] if more else names)
        options: dict[str, Any] = {"fontsize": 7, "color": "0.35", "rotation": 30}
        axis.annotate(
            text,
            (number - 0.5, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 12),
            textcoords="offset points",
            va="bottom",
            **options,
        )


def _name_runs(axis: "Axes", moments: Sequence[Moment]) -> None:
    step = max(1, len(moments) // 12)
    places = range(0, len(moments), step)
    axis.set_xticks(list(places))
    axis.set_xticklabels([_label(moments[n]) for n in places])
    axis.set_xlim(-0.5, len(moments) - 0.5)


def _label(moment: Moment) -> str:
    day, _, time = moment.made.partition("T")
    return f"{day}\n{time[:5]}\n{moment.digest[:8] or 'unknown'}"


def _plain(text: str) -> str:
    """Return a text in which nothing is a formula, and nothing steers."""
    return "".join(c if c.isprintable() else "?" for c in text)[:40].replace("$", r"\$")
