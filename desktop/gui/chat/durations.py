"""Time spans in the short form of the field."""

from desktop.gui.i18n import tr


def duration(seconds: float) -> str:
    """Return a time span such as ``1 m 12 s``; short ones with tenths."""
    if seconds < 9.95:
        return tr("{seconds} s", seconds=f"{seconds:.1f}")
    return elapsed(seconds)


def elapsed(seconds: float) -> str:
    """Return a time span that is still growing, in whole seconds."""
    whole = max(0, round(seconds))
    if whole < 60:
        return tr("{seconds} s", seconds=whole)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return tr("{minutes} m {seconds} s", minutes=minutes, seconds=rest)
    hours, minutes = divmod(minutes, 60)
    return tr("{hours} h {minutes} m", hours=hours, minutes=minutes)
