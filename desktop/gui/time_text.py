"""How long ago something was, in few characters. Pure."""

from datetime import datetime, timedelta

from desktop.gui.i18n import tr


def parse_time(text: str) -> datetime | None:
    """Return a UTC ISO 8601 time, or None if it is none."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago ``then`` was; a time in the future is now.

    Args:
        then: When it was; shown in the time zone of ``now``.
        now: With a time zone.
    """
    past = now - then
    if past < timedelta(minutes=1):
        return tr("now")
    if past < timedelta(hours=1):
        return tr("{minutes} min", minutes=int(past.total_seconds() // 60))
    if past < timedelta(days=1):
        return tr("{hours} h", hours=int(past.total_seconds() // 3600))
    if past < timedelta(days=7):
        return tr("{days} d", days=past.days)
    return then.astimezone(now.tzinfo).strftime("%Y-%m-%d")
