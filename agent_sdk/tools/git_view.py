"""What the git tools say, as text for the model and as facts for the front end. Pure."""

from collections.abc import Iterable, Sequence

from agent_sdk.providers.messages import Json
from agent_sdk.tools.git_parse import Commit, Entry, GitStatus, NumStat
from agent_sdk.tools.git_place import Place
from agent_sdk.tools.path_text import portable, visible

MAX_LISTED = 200
"""Most files that one group lists."""

_MAX_DETAILS = 1_000


def show_status(status: GitStatus, *, place: Place, filters: bool) -> str:
    """Return the state of a work tree as text.

    Args:
        status: The state.
        place: The repository.
        filters: Whether files may be stored otherwise than they are, so that
            some may wrongly seem to have changed.
    """
    parts = [_head(status)]
    if place.above:
        parts.append(
            f"The repository begins at {place.shown}; only '{visible(place.scope)}' is shown."
        )
    parts += _group("Conflicts", [visible(path) for path in status.conflicts])
    parts += _group("Staged", map(_entry, status.staged))
    parts += _group("Changed, not staged", map(_entry, status.unstaged))
    parts += _group("Untracked", [visible(path) for path in status.untracked])
    if len(parts) == 1 + place.above:
        parts.append("Nothing has changed.")
    elif filters:
        parts.append(
            "Files that are stored through a filter (Git LFS, say) may be listed as changed though"
            " they are not: filters are not run."
        )
    return "\n".join(parts)


def _head(status: GitStatus) -> str:
    text = f"On branch {visible(status.branch)}" if status.branch else "HEAD is detached"
    text += f" at {status.commit[:10]}" if status.commit else ", no commits yet"
    if not status.upstream:
        return text + "."
    upstream = visible(status.upstream)
    if status.ahead is None or status.behind is None:
        return f"{text}; its upstream {upstream} is gone."
    if not status.ahead and not status.behind:
        return f"{text}, level with {upstream}."
    return f"{text}; {status.ahead} ahead of and {status.behind} behind {upstream}."


def _group(title: str, items: Iterable[str]) -> list[str]:
    lines = list(items)
    if not lines:
        return []
    shown = [f"  {line}" for line in lines[:MAX_LISTED]]
    if len(lines) > MAX_LISTED:
        shown.append(f"  … and {len(lines) - MAX_LISTED} more")
    return [f"{title} ({len(lines)}):", *shown]


def _entry(entry: Entry) -> str:
    origin = f"{visible(entry.origin)} -> " if entry.origin else ""
    return f"{entry.change}: {origin}{visible(entry.path)}"


def status_details(status: GitStatus) -> Json:
    """Return the state of a work tree as facts."""
    return {
        "branch": status.branch or None,
        "commit": status.commit or None,
        "upstream": status.upstream or None,
        "ahead": status.ahead,
        "behind": status.behind,
        "staged": _entries(status.staged),
        "unstaged": _entries(status.unstaged),
        "untracked": [portable(path) for path in status.untracked[:_MAX_DETAILS]],
        "conflicts": [portable(path) for path in status.conflicts[:_MAX_DETAILS]],
    }


def _entries(entries: Sequence[Entry]) -> list[Json]:
    found: list[Json] = []
    for entry in entries[:_MAX_DETAILS]:
        facts: Json = {"path": portable(entry.path), "change": entry.change}
        if entry.origin:
            facts["origin"] = portable(entry.origin)
        found.append(facts)
    return found


def show_numstat(stats: Sequence[NumStat], *, hidden: Sequence[NumStat]) -> str:
    """Return the summary of a diff; ``hidden`` are those whose contents are not shown."""
    lines = [_stat(stat) for stat in stats[:MAX_LISTED]]
    if len(stats) > MAX_LISTED:
        lines.append(f"… and {len(stats) - MAX_LISTED} more files")
    added = sum(stat.added or 0 for stat in stats)
    deleted = sum(stat.deleted or 0 for stat in stats)
    files = "1 file" if len(stats) == 1 else f"{len(stats)} files"
    lines.append(f"{files}, +{added} -{deleted} lines")
    if hidden:
        names = ", ".join(visible(stat.path) for stat in hidden[:5])
        more = f" and {len(hidden) - 5} more" if len(hidden) > 5 else ""
        lines.append(
            f"Not shown below: {names}{more} (may not be read without a question, or too many;"
            " call again with path)."
        )
    return "\n".join(lines) + "\n"


def _stat(stat: NumStat) -> str:
    origin = f"{visible(stat.origin)} -> " if stat.origin else ""
    counts = "binary" if stat.added is None else f"+{stat.added} -{stat.deleted}"
    return f"{counts}\t{origin}{visible(stat.path)}"


def show_log(commits: Sequence[Commit], *, path: str, more: bool) -> str:
    """Return commits as text, one a line."""
    if not commits:
        return f"No commit touches '{visible(path)}'."
    lines = []
    for commit in commits:
        refs = f" ({visible(commit.refs)})" if commit.refs else ""
        day = commit.date[:16].replace("T", " ")
        lines.append(
            f"{commit.short} {day} {visible(commit.author)}{refs}: {visible(commit.subject)}"
        )
    if more:
        lines.append("… older ones follow; raise limit to see them.")
    return "\n".join(lines)
