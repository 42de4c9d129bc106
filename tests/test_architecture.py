"""The house rules that a machine can hold: mirror, sizes, __all__, contracts."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("p2pmoe", "relay", "ledger", "mobile_worker")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# Modules without a test file of their own, each with the reason.
UNMAPPED = {
    "p2pmoe/__main__.py": "python -m p2pmoe; run by the packaging test",
}
# Tests in the mirror that are no module's own, each with the reason.
UNMIRRORED = {
    "tests/mobile_worker/arithmetic/c/test_kernel_driver.py": "of the C files there",
    "tests/mobile_worker/arithmetic/c/test_kernel_module.py": "of kernel_module.c",
    "tests/mobile_worker/arithmetic/test_kernel_equality.py": "of all kernels there",
    "tests/mobile_worker/browser/test_javascript.py": "of the JavaScript files there",
}
# Functions longer than the limit, each with the reason.
LONG_FUNCTIONS: dict[str, str] = {}

SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "__pycache__" not in path.parts
)
IDS = [str(path.relative_to(ROOT)) for path in SOURCES]


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


def order_of_names(name: str) -> tuple[int, str]:
    """Constants, classes, functions, and U8 before U16: as the linter sorts them."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, re.sub(r"\d+", lambda digits: digits[0].zfill(4), name)


def public_definitions(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
    }


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_module_keeps_to_the_house_rules(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{path} has no module docstring"
    check_all_is_sorted_and_complete(path, tree)
    check_sizes(path, tree)
    check_it_is_mirrored(path)


def check_all_is_sorted_and_complete(path: Path, tree: ast.Module) -> None:
    names = exported(tree)
    if path.name == "__init__.py" and names is None:
        assert not public_definitions(tree)
        return
    if path.name == "__main__.py":
        return
    assert names is not None, f"{path} has no __all__"
    assert names == sorted(names, key=order_of_names), (
        f"__all__ of {path} is not sorted"
    )
    missing = public_definitions(tree) - set(names)
    assert not missing, f"__all__ of {path} lacks {sorted(missing)}"


def check_sizes(path: Path, tree: ast.Module) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES, f"{path} has {lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            name = f"{path.relative_to(ROOT)}::{node.name}"
            if name not in LONG_FUNCTIONS:
                assert length <= MAX_FUNCTION_LINES, f"{name} has {length} lines"


def check_it_is_mirrored(path: Path) -> None:
    relative = path.relative_to(ROOT)
    if path.name == "__init__.py" or str(relative) in UNMAPPED:
        return
    mirror = ROOT / "tests" / relative.parent / f"test_{path.name}"
    assert mirror.exists(), f"{relative} has no {mirror.relative_to(ROOT)}"


def test_the_code_mirrors_the_tests() -> None:
    """A test of several modules together lies in tests/integration."""
    tests = {
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / "tests" / package).rglob("test_*.py")
    }
    alone = {
        str(path)
        for path in tests
        if not (
            ROOT / path.relative_to("tests").with_name(path.name.removeprefix("test_"))
        ).exists()
    }
    assert alone == set(UNMIRRORED)


def test_exemptions_are_still_needed() -> None:
    for name in UNMAPPED:
        assert (ROOT / name).exists(), f"{name} is gone: drop its exemption"
    known = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert set(LONG_FUNCTIONS) <= known


def test_nothing_unpickles_or_evaluates() -> None:
    banned = {"pickle", "marshal", "shelve", "dill", "joblib", "asyncio"}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, f"{path}: {node.func.id}"
                continue
            else:
                continue
            assert not names & banned, f"{path} imports {names & banned}"
