"""The Markdown files of one folder: prompt commands and agents lie so."""

from collections.abc import Iterator
from pathlib import Path

from agent_sdk.resources.files import is_folder, list_folder, read_text
from agent_sdk.resources.found import problem
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Kind, Remark, ResourceProblem, Unusable


def markdown_files(
    folder: Folder, kind: Kind, *, most: int, problems: list[ResourceProblem]
) -> Iterator[tuple[Path, str]]:
    """Yield the folder's ``.md`` files with their text, by name.

    Folders in it are not read, and said; so is every file that cannot be.

    Args:
        folder: The folder; need not exist.
        kind: What its files are, for problems.
        most: Most bytes of a file.
        problems: Gets what is wrong.
    """
    try:
        names = list_folder(folder.path, within=folder.within)
    except Unusable as error:
        problems.append(problem(kind, folder, folder.path, about=error))
        return
    for name in names:
        path = folder.path / name
        if name.startswith("."):
            continue
        if is_folder(path):
            nested = Remark("Folders in here are not read.", "Move its files one level up.")
            problems.append(problem(kind, folder, path, about=nested, level="warning"))
            continue
        if not name.lower().endswith(".md"):
            continue
        try:
            text = read_text(path, most=most, within=folder.within)
        except Unusable as error:
            problems.append(problem(kind, folder, path, about=error))
        else:
            if text is not None:
                yield path, text
