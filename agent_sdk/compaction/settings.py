"""When a conversation is compacted, and how much of it stays as it is."""

from msgspec import Struct, structs

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.models import Model


class CompactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checked when made; sizes are tokens.

    Attributes:
        enabled: Whether it happens by itself; by hand it can always be done.
        reserve_tokens: Room that stays free for the answer; never more than a
            quarter of the model's window is kept free.
        keep_recent_tokens: About how much stays as it is where the newest
            queries alone are too long; never more than a quarter of the window.
        protected_queries: The user's newest queries that stay word for word;
            one that waits for its answer is among them.
        tool_protected_queries: How many of these, the newest, keep their
            calls' results; a value as large as what stays switches the
            clearing of results off.
        max_session_queries: Most queries of the user in context; beyond it
            half of them are summarised. None for no limit.

    Raises:
        InvalidInput: If a field is out of its range; the text names it.
    """

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    protected_queries: int = 4
    tool_protected_queries: int = 2
    max_session_queries: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check("reserve_tokens", self.reserve_tokens, least=0)
        _check("keep_recent_tokens", self.keep_recent_tokens, least=0)
        _check("protected_queries", self.protected_queries, least=1)
        _check("tool_protected_queries", self.tool_protected_queries, least=0)
        if self.max_session_queries is not None:
            # Half of them must still hold all that are protected.
            least = 2 * self.protected_queries
            _check("max_session_queries", self.max_session_queries, least=least)

    def protecting(
        self, queries: int | None = None, tool_queries: int | None = None
    ) -> "CompactionSettings":
        """Return the settings with other numbers of protected queries; None leaves one.

        A limit of queries that is now too low to hold them is left out.

        Raises:
            InvalidInput: If one is out of its range.
        """
        protected = self.protected_queries if queries is None else queries
        tools = self.tool_protected_queries if tool_queries is None else tool_queries
        most = self.max_session_queries
        if isinstance(protected, int) and most is not None and most < 2 * protected:
            most = None
        return structs.replace(
            self,
            protected_queries=protected,
            tool_protected_queries=tools,
            max_session_queries=most,
        )

    def limit(self, model: Model) -> int:
        """Return how many tokens a request to the model may have."""
        window = model.context_window
        return window - min(self.reserve_tokens, window // 4)

    def kept(self, model: Model) -> int:
        """Return about how many tokens stay where a turn must be split."""
        return min(self.keep_recent_tokens, model.context_window // 4)

    def automatic(self, model: Model) -> bool:
        """Whether the model's conversations are compacted without being asked.

        Not those of an embedded model: its adapter sends what fits its small
        window, and a summary by it would say less than that.
        """
        return self.enabled and model.api != "local"


def _check(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(
            f"Compaction: {name!r} is {value!r}, but must be a whole number of at least {least}.",
            hint=f"Set {name!r} to {least} or more, or leave it out.",
        )
