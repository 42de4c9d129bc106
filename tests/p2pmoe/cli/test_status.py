"""`p2pmoe status`: a worker that runs, one that does not, and its page's address."""

import json

from p2pmoe.contributor.errors import ControlRefused
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def test_a_running_worker_is_told_in_five_lines(tmp_path):
    with answering_worker(tmp_path) as (desk, _, _):
        shown = run_here("status", "--data", tmp_path)
        assert shown.exit_code == 0
        names = [line.partition("\t")[0] for line in shown.stdout.splitlines()]
        assert names == ["name", "state", "relay", "served", "earned", "uses"]
        told = json.loads(run_here("status", "--data", tmp_path, "--json").stdout)
        assert told["state"] == "ready"
        refused = run_here("status", "--data", tmp_path, "--page")
        assert isinstance(refused.exception, ControlRefused)
        desk.page_url = "http://127.0.0.1:8377/#key"
        shown = run_here("status", "--data", tmp_path, "--page")
        assert shown.stdout == "http://127.0.0.1:8377/#key\n"


def test_without_one_the_folder_is_told_and_the_exit_code_is_1(tmp_path):
    shown = run_here("status", "--data", tmp_path)
    assert shown.exit_code == 1
    assert "not running: no worker runs on" in shown.stdout
    told = json.loads(run_here("status", "--data", tmp_path, "--json").stdout)
    assert told["state"] == "not_running"
