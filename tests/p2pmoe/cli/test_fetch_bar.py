"""A bar that comes and goes."""

import io

from p2pmoe.cli.fetch_bar import FetchBar
from p2pmoe.cli.late_bar import LateBar


class Bars:
    """Bars on a pipe, with a clock of their own."""

    def __init__(self) -> None:
        self.stream, self.now, self.n_opened, self.n_open = io.StringIO(), 0.0, 0, 0

    def open(self) -> LateBar:
        bars = self

        class Counted(LateBar):
            def __enter__(self):
                bars.n_opened += 1
                bars.n_open += 1
                return super().__enter__()

            def __exit__(self, *error) -> None:
                bars.n_open -= 1
                super().__exit__(*error)

        return Counted(self.stream, monotonic=lambda: self.now)


def test_each_thing_has_a_bar_of_its_own() -> None:
    bars = Bars()
    bar = FetchBar(bars.open)
    assert bars.n_opened == 0
    bar.tell("checking", 0.5)
    bar.tell("checking", 1.0)
    assert (bars.n_opened, bars.n_open) == (1, 0)
    bar.tell("fetching", 0.1)
    bars.now = 10.0
    bar.tell("fetching", 0.25)
    assert bars.stream.getvalue() == "fetching: 25%\n"
    assert (bars.n_opened, bars.n_open) == (2, 1)
    bar.close()
    bar.close()
    assert bars.n_open == 0
