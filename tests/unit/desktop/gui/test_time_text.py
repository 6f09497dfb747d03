from datetime import UTC, datetime, timedelta

import pytest

from desktop.gui.time_text import ago, parse_time

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (timedelta(seconds=-3600), "now"),
        (timedelta(0), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=1), "1 h"),
        (timedelta(hours=23, minutes=59), "23 h"),
        (timedelta(days=1), "1 d"),
        (timedelta(days=6, hours=23), "6 d"),
        (timedelta(days=7), "2026-11-23"),
        (timedelta(days=700), "2024-12-30"),
    ],
)
def test_ago(past: timedelta, text: str) -> None:
    assert ago(NOW - past, NOW) == text


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-30T12:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_time(text) is None


def test_times_of_the_host_are_read() -> None:
    assert parse_time("2026-11-30T12:00:00.000Z") == NOW
    assert parse_time("2026-11-30T12:00:00.000+00:00") == NOW
