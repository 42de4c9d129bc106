"""The local check of a model; the scattered one runs in tests/integration."""

import os
import signal

import pytest
import trio

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.check import check
from p2pmoe.check.check import CheckOptions, check_model
from p2pmoe.check.errors import ReferenceRefused
from p2pmoe.check.worker_network import NetworkAnswer, Scattering
from p2pmoe.config import DiskPolicy
from p2pmoe.weights.errors import ModelFileError
from tests.support.mini_m3 import write_mini_m3
from tests.support.references import made_up_reference, write_reference
from tests.support.scattered_checks import locally_produced


@pytest.fixture
def files(tmp_path):
    """Return a model and a reference that it meets."""
    model = write_mini_m3(tmp_path / "mini.gguf")
    asked = made_up_reference()
    made = locally_produced(model, asked, Profile.R32)
    reference = write_reference(
        tmp_path / "r.npz",
        prompt=asked.prompt,
        rows=asked.rows,
        logits=made.logits,
        greedy=made.greedy,
    )
    return CheckOptions(model=model, reference=reference)


def test_a_model_meets_its_own_reference(files):
    told: list[tuple[str, float]] = []
    report = check_model(files, lambda *step: told.append(step))
    assert report.comparison.max_abs_error == 0.0
    assert report.comparison.n_greedy_equal == report.comparison.n_greedy == 4
    assert report.architecture == "minimax-m3"
    assert report.scattering is None
    assert report.rounded == ("Q8_0",)
    assert told[-1] == ("reference run", 1.0)


def test_experts_that_do_not_fit_are_read_as_they_are_used(files, monkeypatch):
    monkeypatch.setattr(
        check,
        "this_machine",
        lambda: type("Machine", (), {"free_memory_bytes": None}),
    )
    assert check_model(files).comparison.max_abs_error == 0.0


def test_what_is_wrong_is_told_before_anything_is_loaded(files, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "LocalSide", None)
    with pytest.raises(ReferenceRefused, match="no such file"):
        check_model(CheckOptions(model=files.model, reference=tmp_path / "none"))
    with pytest.raises(ModelFileError):
        check_model(CheckOptions(model=tmp_path / "none", reference=files.reference))
    other = write_reference(tmp_path / "o.npz", prompt=[1] * 200, rows=[0, 1, 2])
    with pytest.raises(ReferenceRefused, match="has 204 tokens"):
        check_model(CheckOptions(model=files.model, reference=other))


def test_workers_get_a_backbone_without_experts(files, monkeypatch):
    asked = []

    async def run_over_workers(folder, question, clock, tell):
        assert folder.is_dir()
        asked.append((folder, question))
        made = locally_produced(files.model, question.reference, Profile.R16)
        scattering = Scattering(calls={"worker-1": 7}, n_calls_here=0, n_failovers=0)
        return NetworkAnswer(produced=made, scattering=scattering)

    monkeypatch.setattr(check, "run_over_workers", run_over_workers)
    options = CheckOptions(
        model=files.model,
        reference=files.reference,
        profile=Profile.R16,
        n_workers=3,
    )
    report = check_model(options)
    [(folder, question)] = asked
    assert not folder.exists()
    assert question.n_workers == 3
    assert question.local.options.policy is DiskPolicy.OFF
    assert question.local.options.profile is Profile.R16
    assert question.local.hot.resident() == ()
    assert report.scattering is not None
    assert report.scattering.calls == {"worker-1": 7}
    assert 0 < report.comparison.max_abs_error < 1e-3  # r16 is not r32


def test_a_signal_in_a_scattered_run_is_an_interrupt(files, monkeypatch):
    async def asked_to_end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    monkeypatch.setattr(check, "run_over_workers", asked_to_end)
    options = CheckOptions(model=files.model, reference=files.reference, n_workers=1)
    with pytest.raises(KeyboardInterrupt):
        check_model(options)
