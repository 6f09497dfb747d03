"""The JSON schema that makes a model without tools call tools. Pure.

A turn is one of several objects ``{"name": …, "arguments": {…}}``, one for
each tool and one for an answer in words. The server turns the schema into a
grammar, so that nothing else can come.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_sdk.providers.base import ToolSpec
from agent_sdk.providers.messages import Json

_PATH_FIELDS = frozenset({"file_path", "path"})

_NAMES_WITHOUT_SUFFIX = frozenset(
    {
        *("README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CHANGELOG", "CHANGES"),
        *("INSTALL", "NEWS", "TODO", "Makefile", "Dockerfile", "Rakefile", "Gemfile", "Procfile"),
        *("Jenkinsfile", "Vagrantfile", "Justfile", "justfile"),
    }
)
_NO_FILES = frozenset({"e.g", "i.e", "z.b", "a.k.a"})
_DOMAINS = frozenset({"com", "org", "net", "io"})

_QUOTED = re.compile(r"[\"'`“‘„«]([^\"'`“”‘’„«»\n]{1,200})[\"'`”’“»]")
_WORD = re.compile(r"[^\s\"'`“”‘’„«»()\[\]{}<>,;|，。、；：！？（）「」《》【】]+")
_NAME = r"(?:[A-Za-z]:)?(?:[\w.~@+-]*[/\\])*\.?[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,9}"
_FILE = re.compile(_NAME + r"|\.[a-z][\w.-]{2,}")
_ASCII_FILE = re.compile(_NAME, re.ASCII)
_FILE_BEFORE_MORE = re.compile(r"[\w.~@+/\\-]*\w\.[A-Za-z0-9]{1,10}")
_ROOTED = re.compile(r"(?:~|\.{1,2})?/[\w./@+-]*\w")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
"""Characters of languages that put no space between a name and the next word."""


def named_files(prompt: str) -> list[str]:
    """Return the words of a prompt that look like names of files, each once.

    Whether there are such files is not looked at.
    """
    quoted = [q for q in _QUOTED.findall(prompt) if " " in q and _FILE.search(q)]
    rest = prompt
    for text in quoted:
        rest = rest.replace(text, " ")
    words = [_name_in(word.rstrip(".,:;!?")) for word in _WORD.findall(rest)]
    return list(dict.fromkeys([*quoted, *(w for w in words if _looks_like_file(w))]))


def _name_in(word: str) -> str:
    """Return the name in a word of a language without spaces; any other word as it is."""
    if not _UNSPACED.search(word):
        return word
    found = _ASCII_FILE.search(word) or _FILE_BEFORE_MORE.match(word)
    return found[0] if found else word


def _looks_like_file(word: str) -> bool:
    if "://" in word or word.lower() in _NO_FILES:
        return False
    if word.rpartition("/")[2] in _NAMES_WITHOUT_SUFFIX or _ROOTED.fullmatch(word):
        return True
    if not _FILE.fullmatch(word):
        return False
    return "/" in word or word.rpartition(".")[2].lower() not in _DOMAINS


def path_field(tool: ToolSpec) -> str:
    """Return the required argument of the tool that names a file; '' if there is none."""
    required = tool.parameters.get("required", ())
    return next((name for name in required if name in _PATH_FIELDS), "")


def narrow(tool: ToolSpec, files: Sequence[str]) -> Json | None:
    """Return the schema of the arguments for the small model.

    What need not be given is left out, since it would be guessed; a file can
    only be one that the user has named.

    Returns:
        None if the tool needs a file and none was named.
    """
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    names = [name for name in tool.parameters.get("required", ()) if name in properties]
    narrowed = {name: _bare(properties[name]) for name in names}
    field = path_field(tool)
    if field:
        if not files:
            return None
        narrowed[field] = {"enum": list(files)}
    return {
        "type": "object",
        "properties": narrowed,
        "required": names,
        "additionalProperties": False,
    }


def _bare(schema: Any) -> Any:  # noqa: ANN401 - any JSON schema
    """Return the schema without what only explains it."""
    if isinstance(schema, Mapping):
        return {k: _bare(v) for k, v in schema.items() if k not in ("description", "title")}
    return [_bare(v) for v in schema] if isinstance(schema, list | tuple) else schema


def answer_name(tools: Sequence[ToolSpec]) -> str:
    """Return what the branch without a tool is called: ``answer``, unless a tool is."""
    taken = {tool.name for tool in tools}
    name = "answer"
    while name in taken:
        name += "_"
    return name


def text_arguments() -> Json:
    """Return the schema of the arguments of an answer in words."""
    return {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }


def turn_schema(branches: Mapping[str, Json]) -> Json:
    """Return the schema of a turn.

    Args:
        branches: Schemas of the arguments, by the name of the branch.
    """
    return {"oneOf": [_branch(name, arguments) for name, arguments in branches.items()]}


def _branch(name: str, arguments: Json) -> Json:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
