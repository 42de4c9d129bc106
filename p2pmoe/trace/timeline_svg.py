"""The picture of a timeline: one SVG file that needs nothing else, readable on paper.

No script, no font and no image of elsewhere; kinds differ by lightness and hatching and
not by colour alone. What a bar is about stands in its tooltip (`title`). Text from a
trace is escaped, and what XML cannot hold is shown as U+FFFD. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from p2pmoe.trace.timeline import Bar, Kind, Mark, Timeline

__all__ = ["draw_timeline"]

_WIDTH: Final = 1120
_LEFT: Final = 74  # of the plot: moments and lanes stand before it
_PLOT: Final = _WIDTH - _LEFT - 10
_MARK: Final = 11  # heights of what a strip has, from above
_LANE: Final = 13
_AWAY: Final = 10
_STRIP: Final = _MARK + _LANE + _AWAY + 4
_ROW_GAP: Final = 10
_LEAST: Final = 0.08  # units of width below which a bar is left out
_CHARACTER: Final = 4.9  # width of one, at the size of labels
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE: Final = """
text { font: 9px sans-serif; fill: #222 }
.title { font-size: 15px; font-weight: bold }
.under { font-size: 11px }
.failed { fill: #a01010; font-weight: bold }
.computes { fill: #3f5f7f }
.drafts { fill: url(#drafts); stroke: #3f5f7f; stroke-width: .4 }
.waits { fill: #fdeae7; stroke: #a01010; stroke-width: .5 }
.fetches { fill: url(#fetches); stroke: #a01010; stroke-width: .5 }
.away { fill: #e9b44c; stroke: #7a5a12; stroke-width: .4 }
.edge { stroke: #222; stroke-width: .8 }
.tick { stroke: #bbb; stroke-width: .5 }
"""
_DEFS: Final = """<defs>
<pattern id="drafts" width="4" height="4" patternUnits="userSpaceOnUse">
<rect width="4" height="4" fill="#cfe0ef"/>
<path d="M0,4 L4,0" stroke="#3f5f7f" stroke-width="1"/></pattern>
<pattern id="fetches" width="4" height="4" patternUnits="userSpaceOnUse">
<rect width="4" height="4" fill="#fff"/>
<circle cx="2" cy="2" r=".9" fill="#a01010"/></pattern>
</defs>"""
_LEGEND: Final = (
    (Kind.COMPUTES, "the lane computes"),
    (Kind.DRAFTS, "drafts"),
    (Kind.WAITS, "waits for experts"),
    (Kind.FETCHES, "waits for weights"),
    (Kind.AWAY, "calls of a layer are away (h: hedged, w: weights)"),
)


def draw_timeline(timeline: Timeline, title: str, under: Sequence[str] = ()) -> str:
    """Return the SVG document of a timeline, with a title and lines under it."""
    page = _Page(timeline, 50 + 15 * len(under))
    height = page.bottom + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        _DEFS,
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="10" y="20">{_text(title)}</text>',
    ]
    for number, line in enumerate(under):
        y = 37 + 15 * number
        parts.append(f'<text class="under" x="10" y="{y}">{_text(line)}</text>')
    parts += _legend(page.top - 20)
    parts += page.frame()
    for bar in timeline.bars:
        parts += page.bar(bar)
    for mark in timeline.marks:
        parts += page.mark(mark)
    left_out = {"rows": timeline.n_left_out, "passes": timeline.n_passes_left_out}
    notes = [f"{n} {what} more are left out" for what, n in left_out.items() if n]
    if notes:
        note = ", ".join(notes)
        parts.append(f'<text x="{_LEFT}" y="{height - 6}">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


class _Page:
    """Where things stand: a row is as high as the strips that it shows."""

    def __init__(self, timeline: Timeline, top: int) -> None:
        self._timeline = timeline
        self.top = top
        self._offsets: list[dict[int, int]] = []  # by row: from above, of each strip
        shown: list[set[int]] = [set() for _ in timeline.rows]
        for bar in timeline.bars:
            shown[bar.row].add(bar.strip)
        for mark in timeline.marks:
            shown[mark.row].add(mark.strip)
        y = top
        for strips in shown:
            ordered = enumerate(sorted(strips))
            self._offsets.append({strip: y + _STRIP * at for at, strip in ordered})
            y += _STRIP * len(strips) + _ROW_GAP
        self.bottom = y

    def frame(self) -> Iterator[str]:
        """Yield each row's beginning, its lanes and its ticks, ten a row."""
        timeline = self._timeline
        for start_s, offsets in zip(timeline.rows, self._offsets, strict=True):
            first = min(offsets.values())
            last = max(offsets.values()) + _STRIP - 4
            yield f'<text x="10" y="{first + 9}">{_moment(start_s)}</text>'
            for tick in range(11):
                yield _line("tick", _LEFT + _PLOT * tick / 10, first, last)
            for strip, y in offsets.items():
                lane = timeline.strips[strip]
                yield f'<text x="10" y="{y + _MARK + 10}">lane {lane}</text>'
        tick_ms = timeline.row_s * 100
        yield (
            f'<text x="{_WIDTH - 10}" y="{self.top - 5}" text-anchor="end">'
            f"{tick_ms:g} ms from line to line</text>"
        )

    def bar(self, bar: Bar) -> Iterator[str]:
        """Yield a bar and its label, if they are wide enough to be seen."""
        x, end = self._x(bar.row, bar.start_s), self._x(bar.row, bar.end_s)
        width = end - x
        if width < _LEAST:
            return
        y, height = self._offsets[bar.row][bar.strip] + _MARK, _LANE
        if bar.kind is Kind.AWAY:
            y, height = y + _LANE + 1, _AWAY - 1
        hint = f"<title>{_text(bar.hint)}</title>" if bar.hint else ""
        yield (
            f'<rect class="{bar.kind}" x="{x:.2f}" y="{y}" width="{width:.2f}" '
            f'height="{height}">{hint}</rect>'
        )
        if bar.label and width > _CHARACTER * len(bar.label) + 1:
            yield (
                f'<text x="{x + width / 2:.1f}" y="{y + 7.6:.1f}" '
                f'text-anchor="middle" pointer-events="none">{_text(bar.label)}</text>'
            )

    def mark(self, mark: Mark) -> Iterator[str]:
        """Yield where a pass begins and as much of its label as there is room for."""
        x, end = self._x(mark.row, mark.start_s), self._x(mark.row, mark.end_s)
        y = self._offsets[mark.row][mark.strip]
        yield _line("edge", x, y, y + _MARK + _LANE)
        room = int((end - x - 2) / _CHARACTER)
        label = mark.label if len(mark.label) <= room else mark.label.split(" ")[0]
        if len(label) <= room:
            css = ' class="failed"' if mark.failed else ""
            yield (
                f'<text{css} x="{x + 2:.1f}" y="{y + 8.5:.1f}">{_text(label)}'
                f"<title>{_text(mark.hint)}</title></text>"
            )

    def _x(self, row: int, moment_s: float) -> float:
        share = (moment_s - self._timeline.rows[row]) / self._timeline.row_s
        return _LEFT + _PLOT * min(1.0, max(0.0, share))


def _legend(y: int) -> Iterator[str]:
    x = float(_LEFT)
    for kind, text in _LEGEND:
        yield f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="16" height="9"/>'
        yield f'<text x="{x + 20:.1f}" y="{y + 8}">{text}</text>'
        x += 34 + _CHARACTER * len(text)


def _line(css: str, x: float, y1: float, y2: float) -> str:
    return f'<line class="{css}" x1="{x:.2f}" x2="{x:.2f}" y1="{y1:g}" y2="{y2:g}"/>'


def _moment(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.2f} s"


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
