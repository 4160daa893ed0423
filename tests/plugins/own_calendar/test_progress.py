"""Whatever takes more than two seconds gives a sign of life."""

from __future__ import annotations

import pytest

from agentfw_plugins.own_calendar.progress import Progress


@pytest.mark.parametrize(("seconds", "lines"), [(1.9, []), (2.1, ["reading: 1 of 3"]), (13, ["reading: 1 of 3"])])
def test_what_takes_more_than_two_seconds_is_told_and_what_is_quick_is_not(
    capsys: pytest.CaptureFixture[str], seconds: float, lines: list[str]
) -> None:
    now = 0.0
    progress = Progress("reading", 3, clock=lambda: now)

    now = seconds
    progress.step()
    progress.step()
    progress.end()

    assert capsys.readouterr().err.splitlines() == lines


def test_in_a_log_there_is_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = Progress("reading", 100, clock=lambda: now)

    for second in range(30):
        now = float(second)
        progress.step()

    assert capsys.readouterr().err.splitlines() == ["reading: 3 of 100", "reading: 13 of 100", "reading: 23 of 100"]
