"""Text as it is, where Qt would look for mark-up or for mnemonics in it. Pure."""

from html import escape


def plain_tip(text: str) -> str:
    """Return a tool tip that shows the text as it is; empty for an empty one."""
    if not text:
        return ""
    return f"<qt>{escape(text)}</qt>".replace("\n", "<br>")


def plain_action(text: str) -> str:
    """Return the text of a menu's action or a button that shows ``&`` as it is."""
    return text.replace("&", "&&")
