"""Where resources lie: the user's folders, and the project's, in order of precedence.

A project is the repository around the session's folder, or that folder alone
where there is none. Its files were often written by somebody else, so their
links are followed inside the project only.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.resources.problems import ResourceProblem, Source, shown

SETTING_SOURCES = ("user", "project")


class Folder(Struct, frozen=True):
    """A folder that resources are looked for in.

    Attributes:
        path: The folder; need not exist.
        source: Whose it is.
        within: Real path that links must not lead out of; None for the user's.
    """

    path: Path
    source: Source
    within: Path | None = None


class Places(Struct, frozen=True, kw_only=True):
    """The folders of one session, in order; a later one wins a name.

    Attributes:
        cwd: The session's folder, absolute and real.
        root: The repository's root, or ``cwd``; real.
        instructions: Where ``AGENTS.md`` files are looked for.
        skills: Folders of skill folders.
        commands: Folders of prompt commands.
        agents: Folders of agents.
        problems: Folders that were named and are not looked at.
    """

    cwd: Path
    root: Path
    instructions: tuple[Folder, ...]
    skills: tuple[Folder, ...]
    commands: tuple[Folder, ...]
    agents: tuple[Folder, ...]
    problems: tuple[ResourceProblem, ...] = ()


def find_places(
    *,
    cwd: str | Path,
    agent_dir: Path,
    home: str | Path = "",
    setting_sources: Sequence[str] | None = None,
    extra_skill_folders: Sequence[str | Path] = (),
) -> Places:
    """Return where a session's resources are; looks for the repository's root.

    Args:
        cwd: The session's folder.
        agent_dir: The user's ZPI folder.
        home: The user's home folder, for ``~/.agents/skills``; empty if unknown.
        setting_sources: ``user`` and ``project``, or some of them; None for
            all, empty for none.
        extra_skill_folders: Further folders of the user's skills, absolute.

    Raises:
        InvalidInput: If a source is unknown, or an extra folder is no absolute path.
    """
    sources = _checked_sources(setting_sources)
    extras = [_checked_folder(folder) for folder in extra_skill_folders]
    here = Path(os.path.realpath(cwd))
    root = repository_root(here)
    user, project = "user" in sources, "project" in sources
    mine = (lambda *paths: [Folder(path, "user") for path in paths]) if user else _none
    theirs = (
        (lambda *paths: [Folder(path, "project", root) for path in paths]) if project else _none
    )
    standard = (Path(home) / ".agents" / "skills",) if home else ()
    return Places(
        cwd=here,
        root=root,
        instructions=_once((*mine(agent_dir), *theirs(*_chain(root, here)))),
        skills=_once(
            (
                *mine(*standard, agent_dir / "skills", *extras),
                *theirs(here / ".agents" / "skills", here / ".zpi" / "skills"),
            )
        ),
        commands=_once((*mine(agent_dir / "commands"), *theirs(here / ".zpi" / "commands"))),
        agents=_once((*mine(agent_dir / "agents"), *theirs(here / ".zpi" / "agents"))),
        problems=() if user else tuple(map(_not_read, extras)),
    )


def repository_root(folder: Path) -> Path:
    """Return the nearest folder upwards that holds ``.git``, or the folder itself."""
    for candidate in (folder, *folder.parents):
        try:
            (candidate / ".git").lstat()
        except OSError:
            continue
        return candidate
    return folder


def _chain(root: Path, folder: Path) -> list[Path]:
    """Return the folders from the root down to the folder, both included."""
    return [*(path for path in reversed(folder.parents) if path.is_relative_to(root)), folder]


def _none(*_: Path) -> list[Folder]:
    return []


def _once(folders: Iterable[Folder]) -> tuple[Folder, ...]:
    """Leave out a folder that is there already: in the home folder, user and project meet."""
    found: dict[str, Folder] = {}
    for folder in folders:
        found.setdefault(os.path.realpath(folder.path), folder)
    return tuple(found.values())


def _checked_sources(given: Sequence[str] | None) -> Sequence[str]:
    if given is None:
        return SETTING_SOURCES
    for source in given:
        if source not in SETTING_SOURCES:
            raise InvalidInput(
                f"{source!r} is no setting source.",
                hint=f"Known: {', '.join(SETTING_SOURCES)}; none at all is an empty list.",
            )
    return given


def _checked_folder(given: str | Path) -> Path:
    path = Path(given)
    if not path.is_absolute():
        raise InvalidInput(
            f"The skill folder {str(given)!r} is no absolute path.", hint="Give the whole path."
        )
    return path


def _not_read(folder: Path) -> ResourceProblem:
    return ResourceProblem(
        kind="source",
        source="user",
        path=shown(folder),
        text="It counts as the user's, and the user's sources are switched off.",
        hint="Add 'user' to the setting sources, or leave the folder out.",
        level="warning",
    )
