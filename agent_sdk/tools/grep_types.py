"""Kinds of files that ``grep`` can be held to, by the names that they go by. Pure."""

from collections.abc import Mapping

from agent_sdk.core.errors import InvalidToolInput

_ENDINGS: Mapping[str, str] = {
    "c": "c h",
    "cpp": "cpp cc cxx hpp hh hxx h inl",
    "cs": "cs csx",
    "css": "css scss sass less",
    "csv": "csv tsv",
    "dart": "dart",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "go": "go",
    "haskell": "hs lhs",
    "html": "html htm xhtml",
    "java": "java",
    "js": "js jsx mjs cjs vue svelte",
    "json": "json jsonl json5 jsonc",
    "kotlin": "kt kts",
    "lua": "lua",
    "md": "md markdown mdx",
    "php": "php phtml",
    "proto": "proto",
    "py": "py pyi pyx",
    "r": "r rmd",
    "ruby": "rb rake gemspec erb",
    "rust": "rs",
    "scala": "scala sc sbt",
    "sh": "sh bash zsh fish",
    "sql": "sql",
    "swift": "swift",
    "tex": "tex bib cls sty",
    "toml": "toml",
    "ts": "ts tsx mts cts",
    "txt": "txt",
    "xml": "xml xsd xsl svg",
    "yaml": "yaml yml",
}
_NAMES: Mapping[str, frozenset[str]] = {
    "docker": frozenset({"dockerfile", "containerfile"}),
    "make": frozenset({"makefile", "gnumakefile"}),
    "ruby": frozenset({"gemfile", "rakefile"}),
}
_ALIASES: Mapping[str, str] = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "yml": "yaml",
    "rs": "rust",
    "rb": "ruby",
    "c++": "cpp",
    "csharp": "cs",
    "kt": "kotlin",
    "shell": "sh",
    "bash": "sh",
}
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "make": (".mk",),
    **{kind: tuple(f".{e}" for e in endings.split()) for kind, endings in _ENDINGS.items()},
}


class FileType:
    """One kind of files.

    Args:
        name: Its name, such as ``py``.

    Raises:
        InvalidToolInput: If there is none of that name.
    """

    def __init__(self, name: str) -> None:
        kind = _ALIASES.get(name.lower(), name.lower())
        if kind not in _KNOWN:
            raise InvalidToolInput(
                f"grep: there is no file type {name!r}.",
                hint=f"Known: {', '.join(sorted(_KNOWN))}. Or use glob, such as '*.{name}'.",
            )
        self._endings = _KNOWN[kind]
        self._names = _NAMES.get(kind, frozenset())

    def covers(self, name: str) -> bool:
        """Return whether a file of that name is of the kind."""
        folded = name.lower()
        return folded.endswith(self._endings) or folded in self._names
