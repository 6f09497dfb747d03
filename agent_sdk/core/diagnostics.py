"""What ZPI says about itself, with the secrets taken out.

Everything that leaves for a log, a terminal or a report goes through one
``Redactor``. It knows the live secrets exactly, also as they look inside URLs,
JSON and base64, and it knows the shapes of the usual keys. Diagnostics carry a
plain sentence, safe fields and the type of an error; the error itself stays in
memory and is never printed.
"""

import binascii
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct
from typing_extensions import override

if TYPE_CHECKING:
    import re

MASK = "[redacted]"
SHORTEST = 8
"""Secrets with fewer characters are not looked for: they would be found everywhere."""

Level: TypeAlias = Literal["debug", "info", "warning", "error"]


class Redactor:
    """Takes secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Create a redactor.

        Args:
            secrets: Live secrets; those with less than 8 characters are left out.
        """
        self._secrets: set[str] = set()
        self._forms: tuple[str, ...] | None = None
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Take out this secret, too, from now on."""
        if len(secret.strip()) >= SHORTEST:
            self._secrets.add(secret.strip())
            self._forms = None

    def redact(self, text: str) -> str:
        """Return the text with every secret in it replaced by ``[redacted]``."""
        if self._forms is None:
            forms = {form for secret in self._secrets for form in secret_forms(secret)}
            self._forms = tuple(sorted(forms, key=len, reverse=True))
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        for pattern, replacement in self._patterns:
            text = pattern.sub(replacement, text)
        return text

    def safe_repr(self, value: object, *, limit: int = 200) -> str:
        """Return a short ``repr`` without secrets, whatever the value does."""
        try:
            text = repr(value)
        except Exception:  # noqa: BLE001 - a broken object must not break its report
            return f"<{type(value).__name__}>"
        text = self.redact(text)
        return text if len(text) <= limit else f"{text[:limit]}…"

    @cached_property
    def _patterns(self) -> "tuple[tuple[re.Pattern[str], str], ...]":
        import re  # noqa: PLC0415 - compiled when something is redacted for the first time

        return tuple((re.compile(pattern), replacement) for pattern, replacement in _SHAPES)


_KEYS = (
    r"sk-[\w-]{16,}",
    r"gh[pousr]_\w{20,}",
    r"github_pat_\w{20,}",
    r"glpat-[\w-]{16,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[\w-]{30,}",
    r"xox[abprs]-[\w-]{10,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
)

_SHAPES: tuple[tuple[str, str], ...] = (
    (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        MASK,
    ),
    (r"(://)[^\s/@\"'<>]{1,512}@", rf"\1{MASK}@"),
    (
        r"(?i)\b((?:proxy-)?authorization|x-api-key|api[-_]?key|(?:set-)?cookie|x-goog-api-key)"
        r"(\\?[\"']?\s*[:=,]\s*\\?[\"']?)(?:(?:bearer|basic|token)\s+)?[^\s\"'\\,;)\]}]+",
        rf"\1\2{MASK}",
    ),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {MASK}"),
    (
        r"(?i)([?&](?:api[-_]?key|key|access_token|auth|token|sig|signature|secret|password)=)"
        r"[^&\s\"'#]+",
        rf"\1{MASK}",
    ),
    (rf"(?<![A-Za-z0-9])(?:{'|'.join(_KEYS)})", MASK),
)


def secret_forms(secret: str) -> frozenset[str]:
    """Return the spellings under which a secret turns up in texts.

    Itself, percent-encoded, escaped as in JSON, and as base64 at each of the
    three places where it may start inside a longer text.
    """
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, *_percent(raw), *_json(secret)}
    for shift in range(3):
        for encoded in _base64(raw, shift):
            forms.update((encoded, encoded.replace("+", "-").replace("/", "_")))
    return frozenset(form for form in forms if len(form) >= SHORTEST)


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _percent(raw: bytes) -> set[str]:
    forms = set()
    for safe in (_UNRESERVED, _UNRESERVED | {ord("/")}):
        upper = "".join(chr(b) if b in safe else f"%{b:02X}" for b in raw)
        forms |= {upper, "".join(chr(b) if b in safe else f"%{b:02x}" for b in raw)}
    return forms | {form.replace("%20", "+") for form in forms}


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _json(secret: str) -> set[str]:
    plain = "".join(_ESCAPES.get(char, char) for char in secret)
    ascii_only = "".join(
        _ESCAPES.get(char, char) if char.isascii() else _utf16_escapes(char) for char in secret
    )
    return {plain, ascii_only, plain.replace("/", "\\/"), ascii_only.replace("/", "\\/")}


def _utf16_escapes(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _base64(raw: bytes, shift: int) -> set[str]:
    """Return the part of the base64 text that does not depend on what is around it."""
    text = binascii.b2a_base64(b"\0" * shift + raw, newline=False).decode()
    bits = 8 * (shift + len(raw))
    first = (8 * shift + 5) // 6
    return {text[first : bits // 6]}


class Diagnostic(Struct, frozen=True, kw_only=True):
    """Something worth saying about the program itself.

    Attributes:
        level: How bad it is.
        code: Where it comes from, such as ``zpi.session``.
        message: One sentence, without secrets.
        fields: Facts that are safe to show.
        error_type: Name of the error's class, if there was one.
        cause: The error itself; stays in memory, is never printed or stored.
    """

    level: Level
    code: str
    message: str
    fields: Mapping[str, str | int | float | bool] = {}
    error_type: str = ""
    cause: BaseException | None = None


class DiagnosticsSink(Protocol):
    """Takes diagnostics. It must not raise: there is nobody to tell."""

    def report(self, diagnostic: Diagnostic) -> None:
        """Take one diagnostic."""
        ...


class _Stream(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class StderrSink:
    """Prints warnings and errors, one line each, and never a cause."""

    def __init__(self, *, stream: _Stream, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def report(self, diagnostic: Diagnostic) -> None:
        """Print the diagnostic if it is a warning or an error."""
        if diagnostic.level not in ("warning", "error"):
            return
        text = f"zpi: {diagnostic.level}: {diagnostic.message}"
        for name, value in diagnostic.fields.items():
            text += f" {name}={value!r}" if isinstance(value, str) else f" {name}={value}"
        if diagnostic.error_type:
            text += f" ({diagnostic.error_type})"
        line = _printable(self._redactor.redact(text))
        with contextlib.suppress(OSError, ValueError):  # a closed terminal
            self._stream.write(f"{line}\n")
            self._stream.flush()


def _printable(text: str) -> str:
    """Show what would steer a terminal or hide text as an escape."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


class SinkHandler(logging.Handler):
    """Hands log records to a sink."""

    def __init__(self, *, sink: DiagnosticsSink, redactor: Redactor) -> None:
        super().__init__()
        self._sink = sink
        self._redactor = redactor

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Report the record; a cause goes along in memory only."""
        self._sink.report(
            Diagnostic(
                level=_level(record.levelno),
                code=record.name,
                message=self._redactor.redact(_message(record)),
                error_type=_error_type(record),
                cause=record.exc_info[1] if record.exc_info else None,
            )
        )


def attach_logging(
    *, sink: DiagnosticsSink, redactor: Redactor, logger: logging.Logger
) -> Callable[[], None]:
    """Send a logger's records to the sink, and those of the loggers below it.

    Args:
        sink: Where they go.
        redactor: Takes the secrets out before.
        logger: Usually the root; it would print unredacted warnings otherwise.

    Returns:
        A function that takes the handler away again.
    """
    handler = SinkHandler(sink=sink, redactor=redactor)
    logger.addHandler(handler)
    return lambda: logger.removeHandler(handler)


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit must not break the program
        return str(record.msg)


def _error_type(record: logging.LogRecord) -> str:
    kind = record.exc_info[0] if record.exc_info else None
    return kind.__name__ if kind else ""
