"""Searches files with Python's ``re``, in a process of its own: stands in for ripgrep.

``re`` cannot be stopped while it searches, and some patterns take it longer
than anyone will wait; a process can be ended. What it writes is what ripgrep
writes with the same job (``grep_program``), so that one reader serves both.
Only the standard library is imported: it starts without anything else.
"""

import base64
import codecs
import io
import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, TypeAlias

Span: TypeAlias = tuple[int, int, int]
"""First and last line of a match, from 0, and where in the first line it begins."""

_NO_MATCH, _TROUBLE = 1, 2


def main(job_text: str, paths: list[str]) -> int:
    """Search files and write what is found; return the exit code as ripgrep would.

    Args:
        job_text: The job as JSON: ``pattern``, ``mode``, ``before``, ``after``,
            ``ignore_case``, ``multiline`` and ``most``, see ``grep_program``.
        paths: The files.
    """
    job = json.loads(job_text)
    flags = re.IGNORECASE if job["ignore_case"] else 0
    if job["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    job["expression"] = re.compile(job["pattern"], flags)
    found = trouble = False
    for path in paths:
        try:
            with io.FileIO(path) as file:
                text = _decode(file.readall())
        except OSError:
            trouble = True
            continue
        found = _search(path, text, job) or found
    return _TROUBLE if trouble else 0 if found else _NO_MATCH


def _search(path: str, text: str, job: dict[str, Any]) -> bool:
    lines, expression = _lines(text), job["expression"]
    if job["multiline"]:
        spans = _across(text, list(accumulate((len(x) + 1 for x in lines), initial=0)), expression)
    else:
        spans = _within(lines, expression)
    matched: dict[int, int] = {}
    for first, last, start in spans:
        for number in range(first, last + 1):
            matched.setdefault(number, start if number == first else 0)
        if job["mode"] == "files" or len(matched) >= job["most"]:
            break
    if not matched:
        return False
    name = os.fsencode(path)
    if job["mode"] == "content":
        _write_content(name, _rows(lines, matched, job))
    else:
        count = b"%d\n" % len(matched) if job["mode"] == "count" else b""
        sys.stdout.buffer.write(name + b"\0" + count)
    sys.stdout.buffer.flush()
    return True


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _within(lines: list[str], expression: "re.Pattern[str]") -> Iterator[Span]:
    for number, line in enumerate(lines):
        match = expression.search(line.removesuffix("\r"))
        if match:
            yield number, number, match.start()


def _across(text: str, starts: list[int], expression: "re.Pattern[str]") -> Iterator[Span]:
    for match in expression.finditer(text):
        start, end = match.span()
        if start == len(text) and (not text or text[-1] == "\n"):
            return  # behind the last line
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, max(end - 1, start)) - 1
        yield first, last, start - starts[first]


def _rows(
    lines: list[str], matched: dict[int, int], job: dict[str, Any]
) -> Iterator[tuple[int, str, int | None]]:
    """Yield the lines to show: number from 0, text, and where the match begins."""
    shown = {
        number
        for match in matched
        for number in range(match - job["before"], match + job["after"] + 1)
        if 0 <= number < len(lines)
    }
    for number in sorted(shown):
        yield number, lines[number], matched.get(number)


def _write_content(name: bytes, rows: Iterator[tuple[int, str, int | None]]) -> None:
    path = _data(name)
    for number, text, start in rows:
        places = []
        if start is not None:
            places = [{"start": len(text[:start].encode(errors="surrogateescape"))}]
        data = {
            "path": path,
            "lines": _data((text + "\n").encode(errors="surrogateescape")),
            "line_number": number + 1,
            "submatches": places,
        }
        _write({"type": "match" if places else "context", "data": data})


def _write(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")


def _data(value: bytes) -> dict[str, str]:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(value).decode()}


def _decode(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode(errors="surrogateescape")
