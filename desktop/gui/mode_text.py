"""Permission modes, reasoning levels and such in words. Pure."""

from desktop.bridge.messages import KeyStoreInfo, ModelView, ProviderView
from desktop.gui.i18n import tr

MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
"""Modes to choose from; ``auto`` is not among them, because it asks like ``default``."""


def mode_name(mode: str) -> str:
    """Return a permission mode's name."""
    return {
        "default": tr("Ask"),
        "acceptEdits": tr("Accept edits"),
        "plan": tr("Plan only"),
        "dontAsk": tr("Refuse"),
        "bypassPermissions": tr("No questions"),
        "auto": tr("Ask"),
    }.get(mode, mode)


def mode_meaning(mode: str) -> str:
    """Return what a permission mode does."""
    return {
        "default": tr("Asks before edits and commands."),
        "acceptEdits": tr("Edits files in the folder without asking; asks before commands."),
        "plan": tr("Only reads and plans; changes nothing."),
        "dontAsk": tr("Refuses whatever would need a question."),
        "bypassPermissions": tr("Edits and runs commands without asking."),
        "auto": tr("Asks before edits and commands."),
    }.get(mode, "")


def thinking_name(level: str) -> str:
    """Return a reasoning level's name; the empty one is no reasoning."""
    return {
        "": tr("Off"),
        "minimal": tr("Minimal"),
        "low": tr("Low"),
        "medium": tr("Medium"),
        "high": tr("High"),
        "xhigh": tr("Very high"),
        "max": tr("Maximal"),
    }.get(level, level)


def model_name(model: ModelView) -> str:
    """Return a model's name, or its id where it has none."""
    return model.name or model.key.partition("/")[2] or model.key


def embedded_text() -> str:
    """Return what the embedded model is good for."""
    return tr("Works without a key. It is tiny and only there to show the application.")


def is_key_locked(provider: ProviderView, info: KeyStoreInfo) -> bool:
    """Return whether a provider's key is stored, and waits for its passphrase."""
    return info.wants_passphrase and provider.source == "stored"


def source_text(provider: ProviderView, info: KeyStoreInfo) -> str:
    """Return where a provider's key comes from."""
    if is_key_locked(provider, info):
        return tr("Key locked")
    return {
        "none": tr("No key"),
        "stored": tr("Key stored"),
        "session": tr("Key for this session only"),
        "environment": tr("Environment"),
        "keyless": tr("Needs no key"),
    }[provider.source]


def key_store_text(info: KeyStoreInfo) -> str:
    """Return how keys are kept, and which must be entered again."""
    text = {
        "keyring": tr("Keys are stored encrypted; what opens them lies in the system key ring."),
        "passphrase": tr("Keys are stored encrypted; your passphrase opens them."),
        "session": tr(
            "There is no system key ring: keys are kept in memory, only until ZPI is closed."
        ),
        "pending": tr("Asking the system key ring…"),
        "locked": tr(
            "The system key ring is locked or does not answer: "
            "stored keys cannot be read, and new ones are kept only until ZPI is closed."
        ),
    }[info.mode]
    if info.wants_passphrase:
        text = tr(
            "The stored keys are locked: they cannot be used until you enter your passphrase. "
            "New ones are kept in memory until then."
        )
    if info.replaced:
        text = f"{text} {tr('Your passphrase is not needed any more.')}"
    if not info.unreadable:
        return text
    names = ", ".join(info.unreadable)
    return f"{text} {tr('Keys that must be entered again: {providers}.', providers=names)}"
