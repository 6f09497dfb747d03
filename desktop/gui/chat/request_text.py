"""What a permission card says: what is asked, why, and what an answer would mean. Pure."""

from agent_sdk.events.wire import PermissionAskedEvent, ToolPart, ToolPending
from desktop.gui.chat.tool_text import Section, asked_sections
from desktop.gui.i18n import tr
from desktop.gui.text import soft_split, visible


def heading(asked: PermissionAskedEvent) -> str:
    """Return the question."""
    questions = {
        "bash": tr("Run this command?"),
        "edit": tr("Change this file?"),
        "write": tr("Write this file?"),
        "read": tr("Read this file?"),
    }
    tool = visible(asked.tool, exact=True)
    return questions.get(asked.tool) or tr("Allow this call of {tool}?", tool=tool)


def reason(asked: PermissionAskedEvent) -> str:
    """Return why it is asked."""
    if asked.protected:
        return tr("This is protected: it is asked about every time, and no rule can allow it.")
    if "external_directory" in asked.permissions:
        return tr("It lies outside the session's folder.")
    return tr("No rule allows this yet.")


def places(asked: PermissionAskedEvent) -> str:
    """Return what would be touched, a line each, exactly; empty for commands."""
    if asked.tool == "bash":
        return ""
    return "\n".join(visible(pattern, exact=True) for pattern in asked.patterns)


def always_means(asked: PermissionAskedEvent) -> str:
    """Return what *Always* would allow; empty if it is not offered."""
    if not asked.can_always:
        return ""
    rules = ", ".join(visible(rule, exact=True) for rule in asked.always)
    if not rules:
        return tr("“Always” holds for this session.")
    return tr("“Always” would allow in this session: {rules}", rules=rules)


def content(asked: PermissionAskedEvent, part: ToolPart | None) -> Section:
    """Return exactly what would be done, in one piece.

    Without the call itself, which may not be loaded, it is what the question
    says of it.
    """
    if part is None or (isinstance(part.state, ToolPending) and not part.state.input):
        shown = "\n".join(asked.patterns) or asked.title
        return Section("terminal", soft_split(visible(shown, exact=True)))
    sections = asked_sections(part)
    return Section(sections[0].kind, sections[0].text, sections[0].language)


def expired_text(why: str) -> str:
    """Return what is said of a question that is too late to answer."""
    said = tr("This question has expired; nothing was done.")
    return f"{said} {visible(why)}" if why else said
