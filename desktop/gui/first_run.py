"""What the first page offers, and when there is one. No widgets."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias

from desktop.bridge.messages import ModelsState, ModelView, ProjectInfo

EMBEDDED = "local/smollm2-135m-instruct"
"""Key of the tiny model that comes with ZPI."""

Page: TypeAlias = Literal["loading", "welcome", "no_session", "chat"]


@dataclass(frozen=True)
class Offer:
    """What there is to begin with.

    Attributes:
        embedded: The embedded model, if it can be used.
        ready: The other models that can be asked now.
        environment: Providers whose keys were found in the environment.
    """

    embedded: ModelView | None
    ready: tuple[ModelView, ...]
    environment: tuple[str, ...]


def offer(models: ModelsState) -> Offer:
    """Return what there is to begin with."""
    ready = [each for each in models.models if each.ready]
    embedded = next((each for each in ready if is_embedded(each)), None)
    return Offer(
        embedded=embedded,
        ready=tuple(each for each in ready if not is_embedded(each)),
        environment=tuple(each.name for each in models.providers if each.source == "environment"),
    )


def is_embedded(model: ModelView) -> bool:
    """Return whether it is the tiny model that comes with ZPI."""
    return model.key == EMBEDDED


def page(
    *,
    projects: tuple[ProjectInfo, ...] | None,
    models: ModelsState | None,
    session_open: bool,
) -> Page:
    """Return which page belongs into the window.

    Args:
        projects: All projects; None while they are not known.
        models: All models; None while they are not known.
        session_open: Whether a session is shown.
    """
    if session_open:
        return "chat"
    if projects is None or models is None:
        return "loading"
    return "no_session" if projects else "welcome"


def trial_folder(documents: str, taken: frozenset[str]) -> str:
    """Return the path of a new folder for trying ZPI out.

    Args:
        documents: The user's folder of documents.
        taken: Names that are in it already.
    """
    number = 1
    name = "zpi-trial"
    while name in taken:
        number += 1
        name = f"zpi-trial-{number}"
    return str(PurePath(documents) / name)
