"""Markdown to HTML: safe, and parsed bit by bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.gui.chat.markdown import OPEN_LIMIT, Blocks, allowed_link, link_target, plain_html


def html(text: str) -> str:
    return Blocks().html(text, closed=True)


def test_the_usual() -> None:
    made = html("# T\n\n**b** *i* ~~s~~ `c`\n\n1. a\n2. b\n\n> q\n\n| a |\n|---|\n| 1 |\n")
    for piece in (
        '<p class="h1">T</p>', "<strong>b</strong>", "<em>i</em>", "<s>s</s>", "<code>c</code>",
        "<ol>", "<blockquote>", "<th>a</th>", "<td>1</td>",
    ):  # fmt: skip
        assert piece in made


@pytest.mark.parametrize(
    "attack",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        '<a href="file:///etc/passwd">x</a>',
        "&lt;b&gt;",
    ],
)
def test_html_is_text(attack: str) -> None:
    made = html(attack)
    assert "<img" not in made
    assert "<script" not in made
    assert "<a " not in made
    assert "<b>" not in made


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "src/a.py",
        "http:///x",
        "ssh://h",
    ],
)
def test_other_links_are_words(url: str) -> None:
    assert not allowed_link(url)
    made = html(f"[words]({url})")
    assert "<a" not in made
    assert "words" in made


@pytest.mark.parametrize("url", ["http://a.de/x", "https://a.de", "mailto:a@b.de", "HTTPS://A.de"])
def test_web_and_mail_are_links(url: str) -> None:
    assert allowed_link(url)
    assert f'<a href="{url}">words</a>' in html(f"[words]({url})")


def test_images_are_links_never_loaded() -> None:
    made = html("![chart](https://a.de/i.png) ![local](i.png)")
    assert "<img" not in made
    assert '<a href="https://a.de/i.png">[chart]</a>' in made
    assert "[local]" in made


def test_bare_addresses_without_the_sentence_around_them() -> None:
    made = html("See https://a.de/x_(y), or (https://b.de/z). 见https://c.de/路。In main.py too.")
    assert '<a href="https://a.de/x_(y)">' in made
    assert '<a href="https://b.de/z">' in made
    assert '<a href="https://c.de/路">' in made
    assert made.count("<a ") == 3


def test_a_link_tells_its_real_host() -> None:
    assert link_target("https://evil.example/github.com") == (
        "evil.example\nhttps://evil.example/github.com"
    )


def test_hidden_characters_are_shown() -> None:
    assert "‹U+202E›" in html("a\u202eb")
    assert "‹U+202E›" in plain_html("a\u202eb")


BLOCKS = st.lists(
    st.sampled_from(
        [
            "Some *words*.\n",
            "- a\n- b\n",
            "# Title\n",
            "> quote\n",
            "1. x\n\n   more\n",
            "| a |\n|---|\n| 1 |\n",
            "    code\n",
            "***\n",
        ]
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(BLOCKS, st.data())
def test_growing_ends_like_the_whole(blocks: list[str], data: st.DataObject) -> None:
    text = "\n".join(blocks)
    growing = Blocks()
    at = 0
    while at < len(text):
        at += data.draw(st.integers(1, 40))
        growing.html(text[:at], closed=False)
    assert growing.html(text, closed=True).split() == html(text).split()


def test_only_the_open_end_is_parsed_again() -> None:
    blocks = Blocks()
    paragraph = "Some words of a paragraph. " * 10 + "\n\n"
    text = ""
    for _ in range(100):
        for at in range(0, len(paragraph), 50):
            blocks.html(text + paragraph[:at], closed=False)
            assert blocks.parsed <= 3 * len(paragraph)
        text += paragraph


def test_a_huge_open_block_is_not_parsed() -> None:
    blocks = Blocks()
    text = "word " * (OPEN_LIMIT // 4)
    assert "word" in blocks.html(text, closed=False)
    assert blocks.parsed == 0
