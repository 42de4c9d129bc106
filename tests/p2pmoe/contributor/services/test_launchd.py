"""The agent: a property list that says what the unit says."""

import plistlib
from pathlib import Path

from p2pmoe.contributor.services.launchd import AGENT_LABEL, agent_text

COMMAND = ("/opt/env/bin/python", "-m", "p2pmoe", "--invite", "/a & b/<x>.json")


def test_it_comes_back_whole_and_restarts_without_haste() -> None:
    agent = plistlib.loads(agent_text(COMMAND, Path("/data")).encode())
    assert agent["Label"] == AGENT_LABEL
    assert agent["ProgramArguments"] == list(COMMAND)
    assert agent["ThrottleInterval"] >= 30
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ProcessType"] == "Background"
    assert agent["StandardErrorPath"] == "/data/worker.log"
