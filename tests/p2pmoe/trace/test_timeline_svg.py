"""The picture is one whole XML document, whatever stands in the trace."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.timeline import Timeline, arrange
from p2pmoe.trace.timeline_svg import draw_timeline
from tests.support.passes import a_pass, any_pass, waited

SVG = "{http://www.w3.org/2000/svg}"


def drawn(passes: list[PassTrace], title: str = "run", under: tuple[str, ...] = ()):
    picture = draw_timeline(arrange(passes), title, under)
    return ET.fromstring(picture.encode())  # noqa: S314 - our own


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def test_bars_and_labels_are_there() -> None:
    told = a_pass(50.0, waited(3, 7), drafter="self", n_drafted=4, n_accepted=2)
    root = drawn([told], "run.trace", ("A = 0.50",))
    kinds = [each.get("class") for each in root.iter(f"{SVG}rect")]
    for kind in ("computes", "waits", "away"):
        assert kinds.count(kind) == 2  # in the legend, and of the pass
    shown = texts(root)
    for text in ("run.trace", "A = 0.50", "lane 0", "3", "+1 self 2/4", "0 ms"):
        assert text in shown
    hints = [each.text or "" for each in root.iter(f"{SVG}title")]
    assert any(hint.startswith("layer 3 needs 7 for 2 rows") for hint in hints)


def test_it_needs_nothing_else() -> None:
    picture = draw_timeline(arrange([a_pass(50.0, waited(3, 7))]), "run")
    assert "<script" not in picture
    assert "href" not in picture
    assert picture.count("http") == 1  # the name of the language


def test_bars_stand_within_the_page() -> None:
    root = drawn([a_pass(50.0 + n / 7, waited(n, 1), lane=n % 3) for n in range(9)])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for bar in root.iter(f"{SVG}rect"):
        x, y = float(bar.get("x", 0)), float(bar.get("y", 0))
        assert 0 <= x <= x + float(bar.get("width", 0)) <= width + 0.01
        assert 0 <= y <= y + float(bar.get("height", 0)) <= height


def test_an_empty_timeline_is_a_picture_too() -> None:
    root = drawn([])
    assert "run" in texts(root)


def test_what_is_left_out_is_told() -> None:
    timeline = Timeline(row_s=1.0, n_left_out=3)
    assert "3 rows more are left out" in draw_timeline(timeline, "run")
    timeline = Timeline(row_s=1.0, n_left_out=3, n_passes_left_out=2)
    told = "3 rows more are left out, 2 passes more are left out"
    assert told in draw_timeline(timeline, "run")


def test_labels_without_room_are_left_out() -> None:
    tiny = PassTrace(start_s=50.05, seconds=1e-5, n_committed=7)
    shown = texts(drawn([a_pass(50.0), tiny, a_pass(50.2)]))
    assert "+7" not in shown
    assert shown.count("+1") == 2


@given(st.lists(any_pass, max_size=4), st.text())
def test_whatever_a_trace_holds_the_picture_is_whole(
    passes: list[PassTrace], title: str
) -> None:
    assert drawn(passes, title).tag == f"{SVG}svg"


def test_no_text_steers_the_picture() -> None:
    odd = "</text><script>alert(1)</script>\x00\ud800\x1b"
    told = a_pass(50.0, waited(3, 7), drafter=odd, n_drafted=1, why=odd, failure=odd)
    root = drawn([told], odd, (odd,))
    assert not list(root.iter(f"{SVG}script"))
    assert "</text><script>alert(1)</script>\ufffd\ufffd\ufffd" in texts(root)
