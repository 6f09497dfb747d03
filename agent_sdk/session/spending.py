"""What a session's requests have cost, rebuilt from its records. Pure.

Only what records say counts: usage that was never stored is not made up.
Child sessions' usage comes in by records of the parent, each child's once.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from agent_sdk.core.usage import Usage, total
from agent_sdk.session.records import CustomRecord

CHILD_USAGE = "sdk.child_usage"
"""Custom type of a record that brings in a child's usage."""


class ChildUsage(Struct, frozen=True, rename="camel"):
    """What a child session has used; the data of a ``sdk.child_usage`` record.

    Attributes:
        id: Of the child's run; a second record with the same id counts nothing.
        model_usage: Tokens by ``provider/model``.
    """

    id: str
    model_usage: dict[str, Usage]


class Spending:
    """Tokens of all requests, by ``provider/model``.

    Attributes:
        models: The tokens, in the order in which the models were first used.
        children: Ids of the children's runs that are counted.
    """

    def __init__(self, models: Mapping[str, Usage] = {}, children: Iterable[str] = ()) -> None:
        self.models = dict(models)
        self.children = dict.fromkeys(children)

    @property
    def usage(self) -> Usage:
        """All of it together."""
        return total(self.models.values())

    def add(self, model: str, usage: Usage) -> None:
        """Count a request; one without tokens leaves no trace."""
        if usage.total_tokens:
            self.models[model] = self.models.get(model, Usage()) + usage

    def add_child(self, record: CustomRecord) -> None:
        """Count what a record tells of a child; any other record tells nothing."""
        if record.custom_type != CHILD_USAGE:
            return
        try:
            child = msgspec.convert(record.data, ChildUsage)
        except msgspec.ValidationError:
            return  # kept in the file; it tells no number that could be trusted
        if child.id and child.id not in self.children:
            self.children[child.id] = None
            for model, usage in child.model_usage.items():
                self.add(model, usage)


def child_usage(run_id: str, models: Mapping[str, Usage]) -> CustomRecord:
    """Return the record that brings a child's usage into its parent.

    Args:
        run_id: Id of the child's run.
        models: Its tokens by ``provider/model``.
    """
    data = msgspec.to_builtins(ChildUsage(id=run_id, model_usage=dict(models)))
    return CustomRecord(custom_type=CHILD_USAGE, data=data)
