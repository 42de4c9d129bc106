"""What other programs tell: parsed strictly, asked only where they are, never waited
for.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.governor import outside
from mobile_worker.governor.outside import Outside, ask_program
from mobile_worker.governor.power_supply import PowerReading
from mobile_worker.governor.readings import Power
from tests.support.trio_test import trio_test

PMSET = (
    "Now drawing from 'Battery Power'\n"
    " -InternalBattery-0 (id=4653155)\t43%; discharging; 3:10 remaining present: true\n"
)
TERMUX = (
    '{"health": "GOOD", "percentage": 87, "plugged": "PLUGGED_AC", '
    '"status": "CHARGING", "temperature": 31.2}'
)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (PMSET, PowerReading(Power.BATTERY, 43)),
        (
            "Now drawing from 'AC Power'\n -Internal\t80%; charging; 0:40 remaining",
            PowerReading(Power.MAINS, 80),
        ),
        (
            "Now drawing from 'AC Power'\n -Internal\t80%; discharging; (no estimate)",
            PowerReading(Power.BATTERY, 80),
        ),
        ("Now drawing from 'AC Power'\n", PowerReading(Power.MAINS)),
        ("Now drawing from 'UPS Power'\n", PowerReading(Power.BATTERY)),
        ("", PowerReading(Power.UNKNOWN)),
    ],
)
def test_pmset(text: str, reading: PowerReading) -> None:
    assert outside.parse_pmset(text) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (TERMUX, PowerReading(Power.MAINS, 87, 31.2)),
        (
            '{"plugged": "UNPLUGGED", "status": "DISCHARGING", "percentage": 0}',
            PowerReading(Power.BATTERY),
        ),
        (
            '{"plugged": "PLUGGED_USB", "status": "DISCHARGING", "percentage": 50}',
            PowerReading(Power.BATTERY, 50),
        ),
        ("{}", PowerReading(Power.UNKNOWN)),
        ("[1]", PowerReading(Power.UNKNOWN)),
        ("[" * 99999, PowerReading(Power.UNKNOWN)),
        (
            '{"plugged": "UNPLUGGED", "status": "FULL", "temperature": 1e999}',
            PowerReading(Power.BATTERY),
        ),
    ],
)
def test_termux_battery(text: str, reading: PowerReading) -> None:
    assert outside.parse_termux_battery(text) == reading


def test_termux_wifi() -> None:
    assert outside.parse_termux_wifi('{"supplicant_state": "COMPLETED"}') is False
    assert outside.parse_termux_wifi('{"supplicant_state": "SCANNING"}') is True
    assert outside.parse_termux_wifi("{}") is None


def test_nmcli() -> None:
    said = ["yes\n", "no (guessed)\n", "unknown\n", ""]
    assert [outside.parse_nmcli(text) for text in said] == [True, False, None, None]


def test_idle_hint_and_ioreg() -> None:
    assert outside.parse_idle_hint("b true\nt 5000000\n", 9.0) == 5.0
    assert outside.parse_idle_hint("b false\nt 5000000\n", 9.0) == 9.0
    assert outside.parse_idle_hint("b true\nt x\n", 9.0) is None
    assert outside.parse_idle_hint("", 9.0) is None
    assert outside.parse_ioreg('| "HIDIdleTime" = 2500000000') == 2.5
    assert outside.parse_ioreg(f'"HIDIdleTime" = {10**17}') is None


@given(st.text())
def test_no_text_is_a_traceback(text: str) -> None:
    outside.parse_pmset(text)
    outside.parse_termux_battery(text)
    outside.parse_termux_wifi(text)
    outside.parse_nmcli(text)
    outside.parse_ioreg(text)
    outside.parse_idle_hint(text, 0.0)


class Programs:
    """Some programs and what each prints; remembers who was asked."""

    def __init__(self, **texts: str) -> None:
        self.texts = {name.replace("_", "-"): text for name, text in texts.items()}
        self.asked: list[tuple[str, ...]] = []

    def has(self, name: str) -> str | None:
        return name if name in self.texts else None

    async def ask(self, words: Sequence[str]) -> str:
        self.asked.append(tuple(words))
        return self.texts[words[0]]


@trio_test
async def test_only_what_is_there_is_asked() -> None:
    programs = Programs(nmcli="yes\n")
    told = Outside(ask=programs.ask, has=programs.has, is_macos=False)
    await told.refresh("wlan0", 100.0)
    assert told.is_metered is True
    assert (told.power.power, told.last_input_s) == (Power.UNKNOWN, None)
    assert programs.asked == [
        ("nmcli", "-g", "GENERAL.METERED", "device", "show", "wlan0")
    ]
    await told.refresh("", 100.0)
    assert told.is_metered is None


@trio_test
async def test_termux_and_macos() -> None:
    programs = Programs(
        termux_battery_status=TERMUX,
        termux_wifi_connectioninfo='{"supplicant_state": "COMPLETED"}',
    )
    told = Outside(ask=programs.ask, has=programs.has, is_macos=False)
    await told.refresh("wlan0", 100.0)
    assert (told.power.battery_percent, told.is_metered) == (87, False)
    programs = Programs(pmset=PMSET, ioreg='"HIDIdleTime" = 2000000000')
    told = Outside(ask=programs.ask, has=programs.has, is_macos=True)
    await told.refresh("", 100.0)
    assert (told.power.power, told.last_input_s) == (Power.BATTERY, 98.0)


@trio_test
async def test_real_programs_that_fail_say_nothing(tmp_path: Path) -> None:
    script = tmp_path / "termux-battery-status"
    script.write_text(f"#!/bin/sh\necho '{TERMUX}'\n")
    script.chmod(stat.S_IRWXU)
    assert outside.parse_termux_battery(await ask_program([str(script)])).power
    script.write_text("#!/bin/sh\necho yes\nexit 3\n")
    assert await ask_program([str(script)]) == ""
    assert await ask_program([str(tmp_path / "nowhere")]) == ""
