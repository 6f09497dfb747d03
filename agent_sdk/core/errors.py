r"""Every error that ZPI raises on purpose.

One tree, so that a caller can tell what it may do about a failure:

    ZpiError
      + InvalidInput            what was asked for cannot be done as written
        - PluginConflict
      + InputRefused            a plugin's handler does not let a prompt through
      + ConfigurationError      settings, model table or environment need mending
        - CredentialMissing
        - ModelNotFound
        - SettingsDamaged
        - SettingsConflict
      + ProviderError           the model's side failed; knows whether a retry may help
      + CompactionFailed        no usable summary came; the context is as it was
      + StorageError            a file could not be read or written
        - DiskFull
        - SessionNotFound
        - SessionLocked
        - SessionDamaged
        - SessionReadOnly
        - ForkFailed
        - FileConflict
      + ToolError               told to the model as the call's result
        - InvalidToolInput
        - StaleFile
      + ProcessError            a child could not be started or controlled
      + Aborted                 the user or the host stopped the work

Each class has a stable ``code`` that scripts may test; the message names the
thing with ``!r`` and ``hint`` says what to do next. Messages hold no secrets.
"""

from typing import ClassVar

from typing_extensions import override


class ZpiError(Exception):
    """Root of all errors raised by ZPI.

    Attributes:
        code: Stable identifier of the kind of error.
        message: What happened, in one sentence.
        hint: What the user can do about it; may be empty.
    """

    code: ClassVar[str] = "zpi_error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @override
    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class InvalidInput(ZpiError):
    """An argument, option or prompt is unusable as given."""

    code = "invalid_input"


class PluginConflict(InvalidInput):
    """Plugins cannot be used as they are, or not together; names their owners."""

    code = "plugin_conflict"


class InputRefused(ZpiError):
    """A handler of a plugin refused a prompt; nothing of it is stored."""

    code = "input_refused"


class ConfigurationError(ZpiError):
    """Settings or environment do not allow the work to start."""

    code = "configuration"


class CredentialMissing(ConfigurationError):
    """A provider needs a key and none was found."""

    code = "credential_missing"


class ModelNotFound(ConfigurationError):
    """No configured provider offers the named model."""

    code = "model_not_found"


class SettingsDamaged(ConfigurationError):
    """A settings or model file cannot be read; it is left as it is."""

    code = "settings_damaged"


class SettingsConflict(ConfigurationError):
    """Settings were changed by somebody else since they were read; nothing was saved."""

    code = "settings_conflict"


class ProviderError(ZpiError):
    """A model request failed.

    Attributes:
        kind: Which sort of failure: ``network``, ``timeout``, ``http``,
            ``rate_limit``, ``overloaded``, ``authentication``, ``protocol``
            (the answer breaks the wire format), ``incomplete`` (the stream
            ended without its terminal event), ``empty`` (200 with no
            content), ``context_overflow``, ``quota``, ``refused`` (the model
            declined) or ``invalid_request``.
        status: HTTP status, where there was one.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds that the server asked to wait, where it did.
        request_id: The server's own id of the request, where it gave one.
    """

    code = "provider"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        hint: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.request_id = request_id


class CompactionFailed(ZpiError):
    """No summary could be made, or not one that may be used; nothing was changed."""

    code = "compaction_failed"


class StorageError(ZpiError):
    """Reading or writing durable data failed."""

    code = "storage"


class DiskFull(StorageError):
    """There is no room left for a durable write; nothing acknowledged is lost."""

    code = "disk_full"


class SessionNotFound(StorageError):
    """No session of that id, or none at all to continue."""

    code = "session_not_found"


class SessionLocked(StorageError):
    """Another process is writing the session."""

    code = "session_locked"


class SessionDamaged(StorageError):
    """A session file is broken in the middle; it can be read, not continued."""

    code = "session_damaged"


class SessionReadOnly(StorageError):
    """The session may be read only (newer format, or a writer that failed)."""

    code = "session_read_only"


class ForkFailed(StorageError):
    """A session could not be forked; the source is as it was.

    Attributes:
        session_id: Id that the fork would have had: what could not be cleaned
            up, if anything, has it in its name.
    """

    code = "fork_failed"

    def __init__(self, message: str, *, session_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.session_id = session_id


class FileConflict(StorageError):
    """Files are not as they were left, so that changing them could lose something."""

    code = "file_conflict"


class ToolError(ZpiError):
    """A tool call failed in a way that the model should be told about."""

    code = "tool"


class InvalidToolInput(ToolError):
    """The arguments do not fit the tool's schema."""

    code = "invalid_tool_input"


class StaleFile(ToolError):
    """The file was not read in this session, or changed since it was."""

    code = "stale_read"


class ProcessError(ZpiError):
    """A child process could not be started, controlled or ended."""

    code = "process"


class Aborted(ZpiError):
    """The work was stopped on purpose."""

    code = "aborted"
