"""HTML of Markdown, block by block, as Qt's rich text can show it. Pure, no Qt.

``Blocks`` makes the HTML of one segment of prose: what is complete is parsed
once and kept, only the open end is parsed again as it grows. The HTML holds
classes, no colours, so that a change of theme needs no parsing. HTML in the
text is shown as text; images are shown as links, never loaded.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from typing_extensions import override

from desktop.gui.text import soft_split, visible

OPEN_LIMIT = 8192
"""Characters of an open block that are still parsed while it grows."""

LINK_SCHEMES = ("http", "https", "mailto")

_URL = re.compile(r"https?://[^\s<>\"'`\u3000-\u303f\uff00-\uffef]+", re.IGNORECASE)


class Blocks:
    """The HTML of a segment of prose; finished blocks are parsed once.

    Attributes:
        parsed: Characters that the last call of ``html`` parsed.
    """

    __slots__ = ("_done", "_env", "_frozen", "parsed")

    def __init__(self) -> None:
        self._frozen: list[str] = []
        self._done = 0
        self._env: dict[str, Any] = {}
        self.parsed = 0

    def html(self, text: str, *, closed: bool) -> str:
        """Return the HTML of the text, which begins with what it was before."""
        tail = text[self._done :]
        self.parsed = 0
        if not tail.strip():
            return "".join(self._frozen)
        if len(tail) > OPEN_LIMIT and not closed:
            return "".join(self._frozen) + plain_html(tail)
        self.parsed = len(tail)
        tokens = _PARSER.parse(soft_split(visible(tail)) if closed else visible(tail), self._env)
        starts = _starts(tokens)
        keep = len(starts) if closed else _finished(starts, tail)
        if keep and not closed:
            first_open = starts[keep]
            self._frozen.append(_render(tokens[: first_open[0]], self._env))
            self._done += _offset(tail, first_open[1])
            return "".join(self._frozen) + _render(tokens[first_open[0] :], self._env)
        html = "".join(self._frozen) + _render(tokens, self._env)
        if closed:
            self._frozen, self._done = [html], len(text)
        return html


def plain_html(text: str) -> str:
    """Return text as HTML that shows it as it is, lines and spaces included."""
    lines = soft_split(visible(text)).split("\n")
    return "".join(f'<p class="plain">{escape(line) or "&nbsp;"}</p>' for line in lines)


def allowed_link(url: str) -> bool:
    """Return whether a link may be opened: web pages and mail addresses only."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if parts.scheme.lower() not in LINK_SCHEMES:
        return False
    return bool(host) or parts.scheme.lower() == "mailto"


def link_target(url: str) -> str:
    """Return where a link leads, for people: the host first, whatever the link's text says."""
    shown = visible(url, exact=True)
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return f"{visible(host, exact=True)}\n{shown}" if host else shown


def _starts(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return index and first line of each token that begins a block at the top."""
    return [
        (at, token.map[0])
        for at, token in enumerate(tokens)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]


def _finished(starts: Sequence[tuple[int, int]], text: str) -> int:
    """Return how many blocks cannot change: all but the last one.

    A block that begins in the line that is still arriving is no proof yet
    that the one before it has ended.
    """
    whole = text.count("\n")
    keep = len(starts) - 1
    if keep > 0 and starts[keep][1] >= whole:
        keep -= 1
    return max(keep, 0)


def _offset(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    return at


def _render(tokens: Sequence[Token], env: EnvType) -> str:
    return str(_PARSER.renderer.render(tokens, _PARSER.options, env))


# -------------------------------------------------------------------- parser


class _Renderer(RendererHTML):
    """HTML for Qt's rich text, which knows little CSS."""

    @override
    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        address = str(token.attrs.get("src", ""))
        name = self.renderInlineAsText(token.children, options, env) or address
        if not allowed_link(address):
            return f"[{escape(name)}]"
        return f'<a href="{escape(address)}">[{escape(name)}]</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        address = str(tokens[idx].attrs.get("href", ""))
        return f'<a href="{escape(address)}">' if allowed_link(address) else "<span>"

    def link_close(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        level = tokens[idx].level
        start = next(
            t for t in reversed(tokens[:idx]) if t.type == "link_open" and t.level == level
        )
        return "</a>" if allowed_link(str(start.attrs.get("href", ""))) else "</span>"

    def heading_open(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return f'<p class="{tokens[idx].tag}">'  # Qt has sizes of its own for h1 to h6

    def heading_close(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return "</p>"

    def table_open(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return '<table border="1" cellspacing="0" cellpadding="5">'

    @override
    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<pre>{escape(tokens[idx].content.removesuffix(chr(10)))}</pre>"

    @override
    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return self.fence(tokens, idx, options, env)


def _autolink(state: StateCore) -> None:
    """Turn bare web addresses into links; names of files are left alone."""
    for block in state.tokens:
        if block.type != "inline" or not block.children or "://" not in block.content:
            continue
        children: list[Token] = []
        inside = 0
        for token in block.children:
            inside += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            if token.type == "text" and not inside and "://" in token.content:
                children += _linked(token)
            else:
                children.append(token)
        block.children = children


def _linked(token: Token) -> list[Token]:
    found: list[Token] = []
    at = 0
    for match in _URL.finditer(token.content):
        url = _trimmed(match[0])
        if not allowed_link(url):
            continue
        found += [
            _text(token.content[at : match.start()], token.level),
            Token("link_open", "a", 1, attrs={"href": url}, level=token.level),
            _text(url, token.level + 1),
            Token("link_close", "a", -1, level=token.level),
        ]
        at = match.start() + len(url)
    return [*found, _text(token.content[at:], token.level)]


def _trimmed(url: str) -> str:
    """Leave out punctuation that belongs to the sentence."""
    while url and (url[-1] in ".,;:!?*_~" or (url[-1] in ")]" and _unbalanced(url))):
        url = url[:-1]
    return url


def _unbalanced(url: str) -> bool:
    opening = "(" if url[-1] == ")" else "["
    return url.count(url[-1]) > url.count(opening)


def _text(content: str, level: int) -> Token:
    return Token("text", "", 0, content=content, level=level)


class _Parser(MarkdownIt):
    @override
    def validateLink(self, url: str) -> bool:
        return True  # what may not be opened is drawn without a link, see link_open


def _make_parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline"])
    parser.core.ruler.push("bare_links", _autolink)
    return parser


_PARSER = _make_parser()
