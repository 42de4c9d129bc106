"""Fake machines: a tree like `/` with the files that sensors read."""

from pathlib import Path

__all__ = ["FakeMachine"]


class FakeMachine:
    """A root folder; each method writes what a real system would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("power_supply", "thermal", "net"):
            (root / "sys/class" / name).mkdir(parents=True)
        (root / "proc/net").mkdir(parents=True)
        (root / "dev/pts").mkdir(parents=True)
        self.ticks = [0, 0, 0, 0]  # user, nice, system, idle

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")

    def supply(self, name: str, **values: str | int) -> None:
        for key, value in values.items():
            self.write(f"sys/class/power_supply/{name}/{key}", str(value))

    def battery(self, percent: int, status: str = "Discharging") -> None:
        self.supply("BAT0", type="Battery", status=status, capacity=percent)

    def mains(self, *, online: bool) -> None:
        self.supply("AC", type="Mains", online=int(online))

    def zone(self, number: int, kind: str, millidegrees: int | str) -> None:
        folder = f"sys/class/thermal/thermal_zone{number}"
        self.write(f"{folder}/type", kind)
        self.write(f"{folder}/temp", str(millidegrees))

    def busy(self, seconds: float, *, of: float) -> None:
        """Let `seconds` of `of` processor seconds pass busily."""
        self.ticks[0] += round(100 * seconds)
        self.ticks[3] += round(100 * (of - seconds))
        self.write("proc/stat", "cpu  " + " ".join(map(str, self.ticks)) + " 0 0 0 0")

    def route(self, interface: str, *, wireless: bool = False) -> None:
        lines = [
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask",
            f"{interface}\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000",
        ]
        self.write("proc/net/route", "\n".join(lines))
        self.write(f"sys/class/net/{interface}/type", "1")
        if wireless:
            (self.root / "sys/class/net" / interface / "wireless").mkdir()
