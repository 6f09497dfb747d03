"""What ``.gitignore`` and ``.ignore`` files leave out. Pure.

Within a file the last pattern that matches wins, and ``!`` takes a path back;
a file in a deeper folder comes before those above it, and what any ``.ignore``
says comes before every ``.gitignore``. What lies in a folder that is left out
cannot be taken back: such a folder is not entered at all.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.tools.globs import Part, compile_parts, match_parts

MAX_IGNORE_FILE = 1024 * 1024
"""Bytes of an ignore file; what comes after is not read."""

_WILD = frozenset("*?[\\")


class IgnoreRule(Struct, frozen=True):
    """One line.

    Attributes:
        order: Its place in the file.
        ignored: False for a line with ``!``.
        folders: Whether it is about folders only.
        parts: The compiled pattern, for a path relative to the file's folder.
        name: Whether it is about the name alone, in whichever folder.
    """

    order: int
    ignored: bool
    folders: bool
    parts: tuple[Part, ...]
    name: bool


class IgnoreFile:
    """The rules of one file, arranged so that few need a look for each path."""

    def __init__(self, rules: Iterable[tuple[str, IgnoreRule]]) -> None:
        """Arrange rules; each comes with the pattern's last name as it is written."""
        self._exact: dict[str, list[IgnoreRule]] = {}
        self._endings: dict[str, list[IgnoreRule]] = {}
        self._others: list[IgnoreRule] = []
        for last, rule in rules:
            ending = last[1:] if last[:1] == "*" else ""
            if not _WILD & set(last):
                self._exact.setdefault(last, []).append(rule)
            elif ending[:1] == "." and not _WILD & set(ending):
                self._endings.setdefault(_ending(ending), []).append(rule)
            else:
                self._others.append(rule)

    def __bool__(self) -> bool:
        return bool(self._exact or self._endings or self._others)

    def decide(self, names: Sequence[str], *, folder: bool) -> bool | None:
        """Return whether a path is ignored; None if the file does not say.

        Args:
            names: The path, relative to the folder that the file is in.
            folder: Whether it is a folder.
        """
        last = names[-1]
        found = self._others
        exact = self._exact.get(last)
        endings = self._endings.get(_ending(last)) if "." in last else None
        if exact or endings:
            found = [*found, *(exact or ()), *(endings or ())]
        winner: IgnoreRule | None = None
        for rule in found:
            if winner is not None and rule.order < winner.order:
                continue
            if (folder or not rule.folders) and _covers(rule, names):
                winner = rule
        return None if winner is None else winner.ignored


def parse_ignore(data: bytes) -> IgnoreFile:
    """Return the rules of an ignore file; a line that is no pattern says nothing."""
    text = data[:MAX_IGNORE_FILE].removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    rules = []
    for order, line in enumerate(text.split("\n")):
        rule = _rule(line.removesuffix("\r"), order)
        if rule is not None:
            rules.append(rule)
    return IgnoreFile(rules)


class IgnoreLevel(Struct, frozen=True):
    """The ignore files of one folder.

    Attributes:
        depth: How many names the folder's path has.
        files: By their kind, ``.ignore`` and ``.gitignore``.
    """

    depth: int
    files: Mapping[str, IgnoreFile]


KINDS = (".ignore", ".gitignore")
"""Names of ignore files; what an earlier one says comes first."""


def is_ignored(levels: Sequence[IgnoreLevel], names: Sequence[str], *, folder: bool) -> bool:
    """Return whether a path is left out.

    Args:
        levels: The ignore files of the folders on its way, outermost first.
        names: The path, relative to the same folder as the levels' depths.
        folder: Whether it is a folder.
    """
    for kind in KINDS:
        for level in reversed(levels):
            file = level.files.get(kind)
            said = file.decide(names[level.depth :], folder=folder) if file else None
            if said is not None:
                return said
    return False


def _rule(line: str, order: int) -> tuple[str, IgnoreRule] | None:
    text = _without_trailing_spaces(line)
    if not text or text.startswith("#"):
        return None
    ignored = not text.startswith("!")
    text = text if ignored else text[1:]
    if text.startswith(("\\#", "\\!")):
        text = text[1:]
    folders = text.endswith("/")
    text = text.removesuffix("/") if folders else text
    anchored = "/" in text
    names = text.removeprefix("/").split("/")
    if not all(names):
        return None
    try:
        parts = compile_parts(names)
    except InvalidToolInput:
        return None  # git takes no notice of a bracket that is not closed either
    if not anchored and names == ["**"]:
        return "*", IgnoreRule(order, ignored, folders, compile_parts(["*"]), name=True)
    return names[-1], IgnoreRule(order, ignored, folders, parts, not anchored)


def _without_trailing_spaces(line: str) -> str:
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and len(text) < len(line) else text


def _ending(name: str) -> str:
    return name[name.rfind(".") :]


def _covers(rule: IgnoreRule, names: Sequence[str]) -> bool:
    return match_parts(rule.parts, names[-1:] if rule.name else names)
