"""What the benchmarks' runner prints and writes, with figures made up."""

import json

import numpy as np
import pytest
import trio

from tests.benchmarks import run
from tests.benchmarks.figures import Figure, figure

RATE = figure("8 KiB messages", "1/s", [7000, 6000, 8000], baseline=[3500], at_least=1)
MISSED = figure("A at 20 ms RTT", "trips/token", [6.9], at_most=2.3)
PLAIN = figure("bulk", "MB/s", [0.00012345])


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the areas alpha and beta; return which were measured."""
    asked: list[str] = []

    def measure(area: str) -> list[Figure]:
        asked.append(area)
        return [RATE, MISSED] if area == "alpha" else [PLAIN]

    monkeypatch.setattr(run, "areas", lambda: ["alpha", "beta"])
    monkeypatch.setattr(run, "measure", measure)
    monkeypatch.setattr(run, "notes", lambda area: [f"note on {area[0]}"])
    monkeypatch.delenv("BENCH_JSON", raising=False)
    return asked


def test_a_figure_is_the_median_of_its_rounds():
    assert (RATE.ours, RATE.minimum, RATE.maximum) == (7000, 6000, 8000)
    assert RATE.ratio == 2.0
    assert (RATE.met, MISSED.met, PLAIN.met) == (True, False, None)


def test_the_table_has_a_line_for_each_figure_and_columns_in_line():
    assert run.table("alpha", [RATE, MISSED, PLAIN]).splitlines() == [
        "alpha",
        "  figure                             ours              min..max"
        "  baseline  ratio  target  met",
        "  8 KiB messages [1/s]               7000            6000..8000"
        "      3500      2       1  yes",
        "  A at 20 ms RTT [trips/token]        6.9              6.9..6.9"
        "         -      -     2.3   NO",
        "  bulk [MB/s]                   0.0001234  0.0001234..0.0001234"
        "         -      -       -    -",
    ]


def test_a_json_line_has_exactly_the_nine_keys():
    assert json.loads(run.json_line(RATE)) == {
        "name": "8 KiB messages",
        "unit": "1/s",
        "ours": 7000,
        "baseline": 3500,
        "ratio": 2.0,
        "min": 6000,
        "max": 8000,
        "target": 1,
        "met": True,
    }
    assert json.loads(run.json_line(PLAIN))["met"] is None
    assert "\n" not in run.json_line(PLAIN)


@pytest.mark.parametrize("arguments", [[], ["all"]])
def test_all_areas_are_run(arguments, measured, capsys):
    assert run.main(arguments) == 0
    assert measured == ["alpha", "beta"]
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == run.machine()
    assert "\nalpha\n" in out
    assert out.splitlines()[-1] == "note on b"
    assert "\nbeta\n" in out
    assert err.splitlines() == [
        "[1/2] alpha: measuring",
        "[1/2] alpha: done in 0 s",
        "[2/2] beta: measuring",
        "[2/2] beta: done in 0 s",
    ]


def test_a_missed_target_is_no_failure(measured, capsys):
    assert run.main(["alpha"]) == 0
    assert measured == ["alpha"]
    assert " NO" in capsys.readouterr().out


def test_json_lines_are_added_to_the_file(measured, tmp_path, monkeypatch, capsys):
    sink = tmp_path / "bench.jsonl"
    monkeypatch.setenv("BENCH_JSON", str(sink))
    run.main(["beta"])
    run.main(["alpha"])
    names = [json.loads(line)["name"] for line in sink.read_text().splitlines()]
    assert names == ["bulk", "8 KiB messages", "A at 20 ms RTT"]
    assert capsys.readouterr().out.count("alpha") == 1


def test_an_unknown_area_is_one_line_and_two(measured, capsys):
    assert run.main(["alpha", "nothing"]) == 2
    out, err = capsys.readouterr()
    assert (out, measured) == ("", [])
    assert err == "no benchmark 'nothing': all, alpha, beta\n"


def test_the_machine_line_names_processor_and_versions():
    assert f"numpy {np.__version__}, trio {trio.__version__}" in run.machine()
    assert "\n" not in run.machine()


def test_the_areas_of_the_plan_are_there():
    wanted = {"kernels", "ledger", "market", "relay", "serve", "wan"}
    assert wanted <= set(run.areas())
