"""Errors of the host in the user's language, as far as their code is known here. Pure."""

from dataclasses import dataclass

from desktop.bridge.messages import ErrorInfo
from desktop.gui.i18n import language, tr


@dataclass(frozen=True)
class ErrorText:
    """What is shown of an error.

    Attributes:
        title: What happened, in the user's language.
        detail: What the host said besides; may be empty.
        hint: What the user can do; may be empty.
    """

    title: str
    detail: str = ""
    hint: str = ""


def error_text(error: ErrorInfo) -> ErrorText:
    """Return what is shown of an error.

    In English that is the host's own text, which names the thing. In other
    languages it is a sentence by its code, with the host's text as detail.
    """
    known = _sentence(error.code)
    if language() == "en" or not known:
        return ErrorText(title=error.text, hint=error.hint)
    detail = " ".join(part for part in (error.text, error.hint) if part)
    return ErrorText(title=known, detail=detail)


def _sentence(code: str) -> str:
    """Return what happened, for the codes of ``agent_sdk.core.errors`` and of the channel."""
    sentences = {
        "invalid_input": tr("Something that was entered cannot be used."),
        "configuration": tr("A setting cannot be used."),
        "credential_missing": tr("There is no key for this provider."),
        "model_not_found": tr("This model is not known."),
        "settings_damaged": tr("A settings file is damaged and is not used."),
        "settings_stale": tr("The settings were changed elsewhere meanwhile."),
        "provider": tr("The provider answered with an error."),
        "provider_no_key": tr("The provider wants a key, and there is none."),
        "provider_wrong_key": tr("The provider does not accept the key."),
        "provider_no_model": tr("The provider does not have this model."),
        "provider_unreachable": tr("The provider cannot be reached."),
        "provider_slow": tr("The provider did not answer in time."),
        "provider_limit": tr("The provider's limit is used up."),
        "state_damaged": tr("The state database was damaged; a new one was made."),
        "unknown_question": tr("This question is not open any more."),
        "storage": tr("A file could not be read or written."),
        "disk_full": tr("The disk is full."),
        "session_not_found": tr("This session does not exist any more."),
        "session_locked": tr("This session is in use by another program."),
        "session_damaged": tr("The file of this session is damaged."),
        "session_read_only": tr("This session can only be read."),
        "out_of_memory": tr("There is not enough memory."),
        "process": tr("A program could not be started."),
        "aborted": tr("It was stopped."),
        "input_refused": tr("A plugin refused this prompt."),
        "plugin_conflict": tr("Plugins cannot be used as they are, or not together."),
        "file_conflict": tr("Somebody else has changed a file; it was left as it is."),
        "settings_conflict": tr("The settings were changed elsewhere meanwhile."),
        "compaction_failed": tr("Older history could not be summarised; nothing was changed."),
        "fork_failed": tr("The session could not be copied; it is as it was."),
        "host_lost": tr("ZPI's background process has ended."),
    }
    return sentences.get(code, "")
