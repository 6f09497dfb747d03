"""YAML as it may come from strangers: text, lists and tables, bounded, nothing else.

The library reads the syntax and yields events; the values are made here,
without recursion. Plain scalars stay text. This module loads the library, so
it is imported where the first YAML is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct

if TYPE_CHECKING:
    from agent_sdk.core.frontmatter import Value

_DEPTH = 16
_NODES = 10_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class Loaded(Struct, frozen=True):
    """What a text came to.

    Attributes:
        value: Its value; None if it is empty, or cannot be used.
        error: Why it cannot be used; empty if it can.
        line: The line of that.
    """

    value: "Value"
    error: str = ""
    line: int = 0


class _Refused(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def load_yaml(text: str, *, line: int) -> Loaded:
    """Read one YAML document; never raises.

    Args:
        text: The document.
        line: Number of its first line, for errors.
    """
    try:
        return Loaded(_Builder(line).build(yaml.parse(text, Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.line if error.problem_mark else 0
        return Loaded(None, error.problem or "is no valid YAML", line + at)
    except (yaml.YAMLError, ValueError, IndexError):
        return Loaded(None, "holds characters that YAML does not have", line)
    except _Refused as error:
        return Loaded(None, error.text, error.line)


class _Builder:
    """Makes a value of the library's events."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._line = start
        self._nodes = 0
        self._root: list[Value] = []
        # Open lists and tables; beside a table, the key that waits for its value.
        self._open: list[tuple[list[Value] | dict[str, Value], list[str]]] = [(self._root, [])]

    def build(self, events: Iterator[yaml.Event]) -> "Value":
        """Return the document's value; None if it is empty."""
        for event in events:
            self._line = self._start + (event.start_mark.line if event.start_mark else 0)
            self._take(event)
        if len(self._root) > 1:
            raise self._refused("holds more than one document")
        return self._root[0] if self._root else None

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.AliasEvent():
                raise self._refused("uses an alias (*name), which is not supported")
            case yaml.ScalarEvent():
                self._check(event)
                empty = not event.style and event.value in _NULLS  # no style: plain
                self._add(None if empty else event.value)
            case yaml.SequenceStartEvent():
                self._check(event)
                self._enter([])
            case yaml.MappingStartEvent():
                self._check(event)
                self._enter({})
            case yaml.CollectionEndEvent():
                self._open.pop()
            case _:
                pass  # begin and end of stream and document

    def _check(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            raise self._refused("uses an anchor (&name), which is not supported")
        if event.tag is not None:
            raise self._refused("uses a tag (!name), which is not supported")
        self._nodes += 1
        if self._nodes > _NODES:
            raise self._refused(f"holds more than {_NODES} values")

    def _enter(self, value: "list[Value] | dict[str, Value]") -> None:
        if len(self._open) > _DEPTH:
            raise self._refused(f"is nested deeper than {_DEPTH} levels")
        self._add(value)
        self._open.append((value, []))

    def _add(self, value: "Value") -> None:
        target, waiting = self._open[-1]
        if isinstance(target, list):
            target.append(value)
        elif waiting:
            target[waiting.pop()] = value
        elif not isinstance(value, str):
            raise self._refused("has a field whose name is no text")
        elif value in target:
            raise self._refused(f"has {value[:80]!r} twice")
        else:
            waiting.append(value)

    def _refused(self, text: str) -> _Refused:
        return _Refused(self._line, text)
