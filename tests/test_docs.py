"""The documentation says what the program does: generated pages, names, links."""

import re
from pathlib import Path

import pytest

from docs.generate import PAGES, stale_pages
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import is_supported
from p2pmoe.convert.quantize import WRITABLE
from p2pmoe.model.model import architectures
from p2pmoe.text.pretokenizers import pretokenizer_names
from p2pmoe.weights.huggingface.translate.registry import translated_names
from relay.frame_types import FrameType

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES_OF_PROSE = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
SOURCES = [
    path
    for package in ("p2pmoe", "relay", "ledger", "mobile_worker")
    for path in (ROOT / package).rglob("*.py")
]


def test_generated_pages_are_fresh() -> None:
    assert stale_pages() == [], "run `make docs`"
    assert set(PAGES) == {"command-line.md", "messages.md", "errors.md"}


def test_every_frame_is_documented() -> None:
    page = (DOCS / "reference" / "frames.md").read_text(encoding="utf-8")
    for frame in FrameType:
        assert frame.name in page, f"{frame.name} is not in frames.md"


def test_the_metrics_page_names_what_there_is() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    makers = [text for text in texts if "render_metric" in text or "# TYPE " in text]
    made = {
        name
        for text in makers
        for name in re.findall(r"\b(p2pmoe_[a-z]+_[a-z_]*[a-z])\b", text)
    }
    told = set(re.findall(r"`(p2pmoe_[a-z_]*[a-z])`", page))
    assert len(made) > 20
    assert not made - told, f"metrics.md lacks {sorted(made - told)}"
    assert not told - made, f"nothing makes {sorted(told - made)}"


def test_every_model_that_runs_is_documented() -> None:
    page = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    for name in architectures():
        assert re.search(rf"^\| `{name}`", page, flags=re.MULTILINE), name
    for name in translated_names():
        short = name.replace("MiniMaxM3Sparse", "...")
        assert f"`{name}`" in page or f"`{short}`" in page, name


def test_every_pre_tokenizer_is_documented() -> None:
    page = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]+) \|", page, flags=re.MULTILINE)
    named = {name for cell in cells for name in cell.split(", ")}
    assert set(pretokenizer_names()) <= named


def test_every_format_is_documented_as_it_is() -> None:
    page = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([A-Z][^|]+) \| [^|]+ \| (\w+)[^|]* \| (\w+) \|$", page, re.MULTILINE
    )
    told = {
        name: (computed == "yes", written == "yes")
        for names, computed, written in rows
        for name in names.split(", ")
        if name in Format.__members__
    }
    for name, (computed, written) in told.items():
        assert is_supported(Format[name]) == computed, name
        assert (Format[name] in WRITABLE) == written, name
    assert {each for each in Format if is_supported(each)} <= {Format[n] for n in told}


def test_every_word_of_the_glossary_is_used() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*([^*]+)\*\*", glossary, flags=re.MULTILINE)
    assert len(words) > 40
    code = "\n".join(path.read_text(encoding="utf-8").lower() for path in SOURCES)
    forms = {w: (w.lower(), w.lower().replace(" ", "_")) for w in words}
    unused = [w for w, form in forms.items() if not any(f in code for f in form)]
    assert not unused


@pytest.mark.parametrize(
    "page", PAGES_OF_PROSE, ids=[str(p.relative_to(ROOT)) for p in PAGES_OF_PROSE]
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_command_in_the_readme_exists() -> None:
    commands = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^    p2pmoe ([a-z]+)", readme, flags=re.MULTILINE)
    assert {"relay", "serve", "contribute", "run"} <= set(named)
    for command in named:
        assert f"## `p2pmoe {command}" in commands, command


def test_every_complaint_names_tests_that_there_are() -> None:
    page = (DOCS / "explanation" / "complaints.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!complaint|---)(.+) \|$", page, flags=re.MULTILINE)
    tests = {str(path.relative_to(ROOT / "tests")) for path in TESTS}
    assert len(rows) >= 14
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)`", row.rsplit(" | ", 1)[-1])
        folder = ""
        assert named, row
        for name in named:
            folder = name.rpartition("/")[0] or folder
            wanted = name if "/" in name else f"{folder}/{name}".lstrip("/")
            assert any(path.endswith(wanted) for path in tests), wanted
