"""``zpi models`` and ``zpi sessions``: what there is to choose from."""

from agent_sdk.cli import compose
from agent_sdk.cli.i18n import Translator
from agent_sdk.providers.models import Model
from agent_sdk.providers.transport import is_local
from agent_sdk.session.listing import SessionSummary, list_sessions
from agent_sdk.tools.path_text import visible

_WIDTH = 60


async def models_text(around: compose.Surroundings, *, tr: Translator) -> bytes:
    """Return the models, one a line: name, context window, prices, whether it can be asked.

    Local servers on this machine are looked for; nothing else is contacted.
    """
    settings = compose.read_settings(around, around.cwd)
    runtime, local = compose.model_runtime(around, settings, processes=None)
    runtime.offer(await local.find())
    rows = [_row(model, ready=ready, tr=tr) for model, ready in runtime.available()]
    lines = [tr("Models (* can be used now; the others need a key):"), *rows]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _row(model: Model, *, ready: bool, tr: Translator) -> str:
    prices = model.prices
    if model.api == "local" or is_local(model.base_url):
        cost = tr("on this machine")
    elif prices.known:
        cost = tr(
            "${input} in, ${output} out per million tokens",
            input=prices.input,
            output=prices.output,
        )
    else:
        cost = tr("price unknown")
    window = f"{model.context_window // 1000}k"
    return f"{'*' if ready else ' '} {model.key:<44} {window:>6}  {cost}"


def sessions_text(around: compose.Surroundings, *, tr: Translator, every: bool) -> bytes:
    """Return the sessions, newest first: id, when it was used, how it began.

    Args:
        around: What the program found.
        tr: The user's language.
        every: Whether those of all folders are wanted.
    """
    found = list_sessions(around.agent_dir / "sessions", None if every else around.cwd)
    if not found:
        text = tr("There are no sessions for {folder}.", folder=visible(around.cwd))
        return f"{text}\n".encode()
    return "".join(_line(summary, tr=tr, every=every) for summary in found).encode(
        "utf-8", "replace"
    )


def _line(summary: SessionSummary, *, tr: Translator, every: bool) -> str:
    label = " ".join(summary.label.split())
    label = label if len(label) <= _WIDTH else label[: _WIDTH - 1] + "…"
    when = summary.last_used[:16].replace("T", " ")
    marks = tr(" (damaged)") if summary.damaged else tr(" (newer format)") if summary.newer else ""
    folder = f"  {summary.cwd}" if every else ""
    return f"{summary.session_id}  {when}  {label}{marks}{folder}\n"
