"""What is entered about a provider, checked and turned into commands. No widgets."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from desktop.bridge.messages import ProviderView
from desktop.bridge.protocol import ProviderTested, SaveProvider, TestProvider
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr

APIS = ("openai-completions", "anthropic-messages", "openai-responses")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def api_name(api: str) -> str:
    """Return what an API is called."""
    return {
        "openai-completions": tr("OpenAI-compatible (Chat Completions)"),
        "anthropic-messages": tr("Anthropic-compatible (Messages)"),
        "openai-responses": tr("OpenAI Responses"),
    }.get(api, api)


@dataclass(frozen=True)
class ProviderDraft:
    """What stands in the form.

    Attributes:
        known: The provider that is changed, or whose preset was chosen; None
            for a new one of the user's own.
        key: As typed; empty leaves what is stored.
    """

    known: ProviderView | None
    name: str
    api: str
    base_url: str
    key: str
    model: str

    def problem(self, *, taken: frozenset[str] = frozenset()) -> str:
        """Return what is wrong with it, in words; empty if nothing is.

        Args:
            taken: Names of providers that exist.
        """
        if self.known is None:
            if not _NAME.fullmatch(self.name):
                return tr("Give it a name of small letters, digits, '-', '_' and '.'.")
            if self.name in taken:
                return tr("There is a provider of this name already.")
        address = self._address_problem()
        if address:
            return address
        if self.key and not self.key.isprintable():
            return tr("The key contains characters that cannot be typed; copy it again.")
        if not self.model.strip():
            return tr("Name a model.")
        return ""

    def save(self) -> SaveProvider:
        """Return the command that keeps it."""
        return SaveProvider(
            name=self.name,
            api=self.api,
            base_url=self.base_url.strip(),
            models=self._models(),
            key=self.key.strip() or None,
        )

    def test(self) -> TestProvider:
        """Return the command that tries it."""
        return TestProvider(
            name=self.name,
            api=self.api,
            base_url=self.base_url.strip(),
            model=self.model.strip(),
            key=self.key.strip() or None,
        )

    @property
    def model_key(self) -> str:
        """The model's key once it is saved."""
        return f"{self.name}/{self.model.strip()}"

    def _models(self) -> tuple[str, ...]:
        known = self.known.models if self.known else ()
        model = self.model.strip()
        return known if not model or model in known else (*known, model)

    def _address_problem(self) -> str:
        address = self.base_url.strip()
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            return tr("The address is not a web address.")
        if parts.scheme not in {"http", "https"} or not host or " " in address:
            return tr("The address must begin with https:// or http://.")
        if parts.username or parts.password:
            return tr("Put no name or password into the address; there is a field for the key.")
        typed = bool(self.key.strip())
        if parts.scheme == "http" and typed and host not in _LOCAL:
            return tr("A key is sent unencrypted over http://. Use https://.")
        return ""


@dataclass(frozen=True)
class Step:
    """One step of a test: whether it went well, and what is said of it."""

    good: bool
    text: str
    hint: str = ""


def steps_of(tested: ProviderTested) -> list[Step]:
    """Return the result of a test in words, step by step."""
    why = error_text(tested.error) if tested.error else None
    reason = " – ".join(part for part in (why.title, why.detail) if part) if why else ""
    hint = why.hint if why else ""
    if not tested.reached:
        return [Step(good=False, text=_with(tr("The server was not reached."), reason), hint=hint)]
    reached = Step(good=True, text=tr("The server was reached."))
    if not tested.answered:
        text = _with(tr("The model did not answer."), reason)
        return [reached, Step(good=False, text=text, hint=hint)]
    answer = " ".join(tested.text.split())[:80]
    text = tr("The model answered: “{text}”", text=answer) if answer else tr("The model answered.")
    return [reached, Step(good=True, text=text)]


def _with(text: str, reason: str) -> str:
    return f"{text} {reason}" if reason else text
