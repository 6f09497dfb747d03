import base64
import io
import json
import logging
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from agent_sdk.core.diagnostics import (
    MASK,
    Diagnostic,
    Redactor,
    StderrSink,
    attach_logging,
    secret_forms,
)

SECRET = 'cänary/+ "key"\\0123456789'


class ListSink:
    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)


# ------------------------------------------------------------ live secrets

spelled: list[Callable[[str], str]] = [
    lambda s: s,
    urllib.parse.quote,
    lambda s: urllib.parse.quote(s, safe=""),
    urllib.parse.quote_plus,
    lambda s: urllib.parse.quote(s, safe="").lower(),
    lambda s: json.dumps(s)[1:-1],
    lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
]


@pytest.mark.parametrize("spell", spelled)
def test_a_live_secret_is_found_in_every_spelling(spell: Callable[[str], str]) -> None:
    text = f"before {spell(SECRET)} after {spell(SECRET)}"
    assert Redactor([SECRET]).redact(text) == f"before {MASK} after {MASK}"


@given(
    secret=st.text(min_size=12, max_size=40).filter(lambda s: len(s.strip()) >= 12),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_nothing_of_a_secret_is_left_in_base64(secret: str, before: bytes, after: bytes) -> None:
    secret = secret.strip()
    raw = before + secret.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(raw).decode()
        redacted = Redactor([secret]).redact(text)
        left = redacted.replace(MASK, "")
        # At most the characters that the neighbours have a share in.
        assert len(left) <= (len(before) + len(after)) * 4 // 3 + 8
        assert MASK in redacted


@given(st.text(min_size=8, max_size=30).filter(lambda s: len(s.strip()) >= 8))
def test_a_secret_never_survives(secret: str) -> None:
    secret = secret.strip()
    assert secret not in Redactor([secret]).redact(f"a {secret} b") or secret in f"a {MASK} b"
    assert all(len(form) >= 8 for form in secret_forms(secret))


def test_short_secrets_are_left_alone_and_new_ones_are_learnt() -> None:
    redactor = Redactor(["abc", ""])
    assert redactor.redact("abc canary-value-1") == "abc canary-value-1"
    redactor.add("canary-value-1\n")
    assert redactor.redact("abc canary-value-1") == f"abc {MASK}"


def test_the_longer_of_two_secrets_goes_first() -> None:
    redactor = Redactor(["canary-long", "canary-long-and-longer"])
    assert redactor.redact("x canary-long-and-longer y") == f"x {MASK} y"


# ------------------------------------------------------------------ shapes


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-AbCdEf0123456789_-xyz",
        "sk-proj-0123456789abcdef0123",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "github_pat_11ABCDEFG0123456789_abcdefghij",
        "glpat-0123456789abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA0123456789abcdefghijklmnopqrstu",
        "xoxb-123456789012-abcdefghij",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_keys_are_known_by_their_shape(secret: str) -> None:
    for text in (f"key {secret}.", f'"{secret}"', f"a={secret}&b", f"({secret})"):
        assert secret not in Redactor().redact(text)
        assert MASK in Redactor().redact(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x-api-key: abc123", f"x-api-key: {MASK}"),
        ("{'x-api-key': 'abc123', 'b': 1}", f"{{'x-api-key': '{MASK}', 'b': 1}}"),
        ("(b'X-Api-Key', 'abc123')", f"(b'X-Api-Key', '{MASK}')"),
        ('{"Authorization":"Bearer abc123"}', f'{{"Authorization":"{MASK}"}}'),
        ('{\\"authorization\\": \\"Basic YWJj\\"}', f'{{\\"authorization\\": \\"{MASK}\\"}}'),
        ("Proxy-Authorization=Basic YWJj", f"Proxy-Authorization={MASK}"),
        ("Set-Cookie: sid=1", f"Set-Cookie: {MASK}"),
        ("got Bearer abcdefgh1234", f"got Bearer {MASK}"),
        ("https://user:pass@host/x", f"https://{MASK}@host/x"),
        ("git clone https://token@host/x", f"git clone https://{MASK}@host/x"),
        ("https://h/x?key=abc&b=1", f"https://h/x?key={MASK}&b=1"),
        ("https://h/x?a=1&access_token=abc#f", f"https://h/x?a=1&access_token={MASK}#f"),
    ],
)
def test_places_where_credentials_stand(text: str, expected: str) -> None:
    assert Redactor().redact(text) == expected


def test_a_private_key_is_cut_out_also_when_its_end_is_missing() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
    assert Redactor().redact(f"a\n{pem}\nb") == f"a\n{MASK}\nb"
    assert Redactor().redact("a\n" + pem[:40]) == f"a\n{MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "Read 12 files in /home/me/project/sk-learn/task-list.md",
        "mail me at a@b.example, or see https://host/@scope/package",
        "the basic idea is plain",
        "ghp_ is a prefix",
        "https://host:8080/path?query=word&page=2",
        "def key(self): return self.api",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor(["canary-0123456789"]).redact(text) == text


def test_shapes_are_found_in_linear_time() -> None:
    # Would take minutes if a pattern backtracked.
    for piece in ("-----BEGIN PRIVATE KEY-----", "://", "x-api-key: ", "eyJaaaaaaaa.", "Bearer "):
        Redactor().redact(piece * 20_000)


def test_safe_repr_is_short_and_survives_anything() -> None:
    class Broken:
        @override
        def __repr__(self) -> str:
            raise RuntimeError("no")

    redactor = Redactor(["canary-0123456789"])
    assert redactor.safe_repr({"k": "canary-0123456789"}) == f"{{'k': '{MASK}'}}"
    assert redactor.safe_repr(Broken()) == "<Broken>"
    assert len(redactor.safe_repr("x" * 999, limit=20)) == 21


# ----------------------------------------------------------------- logging


def logger() -> logging.Logger:
    made = logging.getLogger("zpi.test.diagnostics")
    made.propagate = False  # the tests' own guard is not meant
    made.handlers.clear()
    made.setLevel(logging.DEBUG)
    return made


def test_records_reach_the_sink_without_secrets_or_traces() -> None:
    sink, log = ListSink(), logger()
    detach = attach_logging(sink=sink, redactor=Redactor(["canary-0123456789"]), logger=log)
    log.warning("used %s at %s", "canary-0123456789", "x")
    try:
        raise ValueError("canary-0123456789 inside")
    except ValueError:
        log.exception("it failed")
    log.info("fine")
    log.warning("%d does not fit", "text")
    detach()
    log.error("nobody hears this")
    first, second, third, fourth = sink.diagnostics
    assert (first.level, first.code, first.message) == (
        "warning",
        "zpi.test.diagnostics",
        f"used {MASK} at x",
    )
    assert (second.level, second.message, second.error_type) == ("error", "it failed", "ValueError")
    assert isinstance(second.cause, ValueError)
    assert third.level == "info"
    assert "does not fit" in fourth.message


def test_stderr_gets_warnings_and_errors_on_one_line_each_and_no_cause() -> None:
    stream = io.StringIO()
    sink = StderrSink(stream=stream, redactor=Redactor(["canary-0123456789"]))
    sink.report(Diagnostic(level="debug", code="a", message="not shown"))
    sink.report(Diagnostic(level="info", code="a", message="not shown"))
    sink.report(
        Diagnostic(
            level="warning",
            code="a",
            message="line\nbreak \x1b[2J \u202e",
            fields={"n": 3, "path": "canary-0123456789"},
        )
    )
    sink.report(
        Diagnostic(
            level="error",
            code="a",
            message="failed",
            error_type="OSError",
            cause=OSError("the cause"),
        )
    )
    assert stream.getvalue().splitlines() == [
        f"zpi: warning: line\\nbreak \\x1b[2J \\u202e n=3 path='{MASK}'",
        "zpi: error: failed (OSError)",
    ]


def test_a_closed_terminal_does_no_harm() -> None:
    stream = io.StringIO()
    stream.close()
    StderrSink(stream=stream, redactor=Redactor()).report(
        Diagnostic(level="error", code="a", message="x")
    )
