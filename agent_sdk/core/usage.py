"""Tokens and money: plain arithmetic, no I/O.

Token counts are disjoint: ``input_tokens`` excludes what was read from or
written to the provider's prompt cache, and reasoning tokens are part of
``output_tokens``.
"""

from collections.abc import Iterable

from msgspec import Struct


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one request, or a sum of several."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Everything that was read or written."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_input_tokens
            + self.cache_creation_input_tokens
        )

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
        )


class Prices(Struct, frozen=True, omit_defaults=True):
    """US dollars per million tokens; all zero means that they are not known."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def known(self) -> bool:
        """Whether any price is set."""
        return bool(self.input or self.output or self.cache_read or self.cache_write)


def cost_usd(usage: Usage, prices: Prices) -> float:
    """Return what the usage costs in US dollars; zero where prices are unknown."""
    return (
        usage.input_tokens * prices.input
        + usage.output_tokens * prices.output
        + usage.cache_read_input_tokens * prices.cache_read
        + usage.cache_creation_input_tokens * prices.cache_write
    ) / 1_000_000


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of the usages."""
    result = Usage()
    for usage in usages:
        result = result + usage
    return result
