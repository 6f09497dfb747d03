"""Every command that the window may give the host, typed, with its answer.

``Host`` is the same as an interface: what answers commands implements it, and
the window calls it through ``client.Bridge``. A command that fails answers
with an ``ErrorInfo``; there is no other way for one to fail.
"""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo, OpenedSession, ProjectInfo, TranscriptPage

LEAST_PASSPHRASE = 12
"""Characters; whoever has a copy of the file may try shorter ones until one fits."""

MOST_PASSPHRASE = 1000
"""Characters; so that no command with a passphrase is larger than a frame."""


class _Frozen(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class _Concealing(_Frozen, frozen=True):
    """What must not be seen in logs and reports: its ``repr`` shows no value."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


# ----------------------------------------------------------------- commands


class Subscribe(_Frozen, tag_field="command", tag="subscribe", frozen=True):
    """Send the topic's state now and whenever it changes."""

    topic: str


class OpenProject(_Frozen, tag_field="command", tag="open_project", frozen=True):
    """Add a folder to the projects; answered with ``ProjectOpened``."""

    path: str


class CloseProject(_Frozen, tag_field="command", tag="close_project", frozen=True):
    """Take a project out of the side bar; its folder and sessions stay."""

    project_id: str


class NewSession(_Frozen, tag_field="command", tag="new_session", frozen=True):
    """Begin a session; answered with ``SessionOpened``. Nothing is stored yet."""

    project_id: str


class OpenSession(_Frozen, tag_field="command", tag="open_session", frozen=True):
    """Show a session: its tail now, its events from then on; answered with ``SessionOpened``."""

    session_id: str


class HideSession(_Frozen, tag_field="command", tag="hide_session", frozen=True):
    """Send no more events of the session; what runs goes on."""

    session_id: str


class ReadMessages(_Frozen, tag_field="command", tag="read_messages", frozen=True):
    """Answered with ``MessagesRead``: at most ``count`` messages from index ``first``."""

    session_id: str
    first: int
    count: int


class SubmitPrompt(_Frozen, tag_field="command", tag="submit_prompt", frozen=True):
    """Run a prompt, or queue or steer it while a run is going on.

    Answered with ``PromptTaken`` when it is durable. ``prompt_id`` makes it
    safe to send again: the same id is taken once.
    """

    session_id: str
    prompt_id: str
    text: str
    follow_up: Literal["queue", "steer"] = "queue"


class RemoveQueued(_Frozen, tag_field="command", tag="remove_queued", frozen=True):
    """Take a prompt out of the queue; answered with ``QueuedRemoved`` (its text)."""

    session_id: str
    prompt_id: str


class ResumeQueue(_Frozen, tag_field="command", tag="resume_queue", frozen=True):
    """Go on with a queue that was paused by a stop, an error or a restart."""

    session_id: str


class Interrupt(_Frozen, tag_field="command", tag="interrupt", frozen=True):
    """Stop the session's run."""

    session_id: str


class ContinueRun(_Frozen, tag_field="command", tag="continue_run", frozen=True):
    """Go on after a run that was cut or failed."""

    session_id: str


class ReplyPermission(_Frozen, tag_field="command", tag="reply_permission", frozen=True):
    """Answer a question; ``input_hash`` is that of what was shown."""

    session_id: str
    request_id: str
    input_hash: str
    reply: Literal["once", "always", "reject"]
    reason: str = ""


class RenameSession(_Frozen, tag_field="command", tag="rename_session", frozen=True):
    """Give a session a title, 1 to 200 characters."""

    session_id: str
    title: str


class DeleteSession(_Frozen, tag_field="command", tag="delete_session", frozen=True):
    """Delete a session with everything that belongs to it; refused while it runs."""

    session_id: str


class ChooseModel(_Frozen, tag_field="command", tag="choose_model", frozen=True):
    """Use another model, or reasoning level, from the next run on."""

    session_id: str
    model: str
    thinking: str = ""


class ChoosePermissionMode(_Frozen, tag_field="command", tag="choose_permission_mode", frozen=True):
    """Use another permission mode at once."""

    session_id: str
    mode: str


class SaveProvider(_Concealing, tag_field="command", tag="save_provider", frozen=True):
    """Add or change a provider of the user's own.

    ``key`` None leaves the stored key, an empty one removes it.
    """

    name: str
    api: str
    base_url: str
    models: tuple[str, ...] = ()
    key: str | None = None


class RemoveProvider(_Frozen, tag_field="command", tag="remove_provider", frozen=True):
    """Remove a provider of the user's own, and its key."""

    name: str


class TestProvider(_Concealing, tag_field="command", tag="test_provider", frozen=True):
    """Two steps: the server is reached, then the model answers; ``ProviderTested``."""

    __test__ = False  # it is no test, whatever its name says to pytest

    name: str
    api: str
    base_url: str
    model: str
    key: str | None = None


class SetDefaultModel(_Frozen, tag_field="command", tag="set_default_model", frozen=True):
    """The model for new sessions."""

    model: str


class SetPassphrase(_Concealing, tag_field="command", tag="set_passphrase", frozen=True):
    """Store keys encrypted with a passphrase; only where there is no key ring."""

    passphrase: str


class UnlockKeys(_Concealing, tag_field="command", tag="unlock_keys", frozen=True):
    """Open the stored keys with their passphrase; a wrong one is ``wrong_passphrase``."""

    passphrase: str


class ChangePassphrase(_Concealing, tag_field="command", tag="change_passphrase", frozen=True):
    """Replace the passphrase by another one."""

    passphrase: str
    new_passphrase: str


class ForgetPassphrase(_Frozen, tag_field="command", tag="forget_passphrase", frozen=True):
    """Delete all keys that are encrypted with the passphrase; it need not be known."""


PassphraseCommand: TypeAlias = SetPassphrase | UnlockKeys | ChangePassphrase | ForgetPassphrase


class ChangeSettings(_Frozen, tag_field="command", tag="change_settings", frozen=True):
    """Change settings; refused if ``revision`` is not the newest. None leaves a value."""

    revision: int
    permission_mode: str | None = None
    thinking: str | None = None
    follow_up: Literal["queue", "steer"] | None = None


class Shutdown(_Frozen, tag_field="command", tag="shutdown", frozen=True):
    """Stop what runs, in good order, and end the host."""


Command: TypeAlias = (
    Subscribe
    | OpenProject
    | CloseProject
    | NewSession
    | OpenSession
    | HideSession
    | ReadMessages
    | SubmitPrompt
    | RemoveQueued
    | ResumeQueue
    | Interrupt
    | ContinueRun
    | ReplyPermission
    | RenameSession
    | DeleteSession
    | ChooseModel
    | ChoosePermissionMode
    | SaveProvider
    | RemoveProvider
    | TestProvider
    | SetDefaultModel
    | PassphraseCommand
    | ChangeSettings
    | Shutdown
)


# ------------------------------------------------------------------ answers


class Done(_Frozen, tag_field="answer", tag="done", frozen=True):
    """It is done; state frames say what changed."""


class ProjectOpened(_Frozen, tag_field="answer", tag="project_opened", frozen=True):
    """The project, new or known."""

    project: ProjectInfo


class SessionOpened(_Frozen, tag_field="answer", tag="session_opened", frozen=True):
    """The session's tail; events follow."""

    opened: OpenedSession


class MessagesRead(_Frozen, tag_field="answer", tag="messages_read", frozen=True):
    """The page; it may hold fewer messages than asked for."""

    page: TranscriptPage


class PromptTaken(_Frozen, tag_field="answer", tag="prompt_taken", frozen=True):
    """The prompt is durable: it runs, is queued, or will be steered in."""

    prompt_id: str
    became: Literal["running", "queued", "steered"]


class QueuedRemoved(_Frozen, tag_field="answer", tag="queued_removed", frozen=True):
    """The text of the prompt that was taken out, to put back into the composer."""

    text: str


class ProviderTested(_Frozen, tag_field="answer", tag="provider_tested", frozen=True):
    """How far the test came.

    Attributes:
        reached: Whether the server answered.
        answered: Whether the model did.
        text: The beginning of its answer.
        error: Why it went no further.
    """

    reached: bool
    answered: bool
    text: str = ""
    error: ErrorInfo | None = None


class Failed(_Frozen, tag_field="answer", tag="failed", frozen=True):
    """The command was not carried out; nothing changed."""

    error: ErrorInfo


Answer: TypeAlias = (
    Done
    | ProjectOpened
    | SessionOpened
    | MessagesRead
    | PromptTaken
    | QueuedRemoved
    | ProviderTested
    | Failed
)


class CommandHandler(Protocol):
    """Who carries out commands: the host, or a fake of it in tests."""

    async def handle(self, command: Command) -> Answer:
        """Carry out a command; failures are ``Failed``, never raised."""
        ...
