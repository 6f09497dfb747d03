"""The one gate before every tool call.

Order: what any layer denies is denied; what is protected is asked about, every
time; then the layers' last match, then the permission mode, then a question.
The engine keeps no files: answers of *always* go through ``remember`` and are
durable before the call runs.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import AbortSignal, TaskOwner
from agent_sdk.core.ids import Ids
from agent_sdk.loop.types import (
    Action,
    Decision,
    Notice,
    PermissionAsked,
    PermissionReplied,
    PermissionRequest,
    PreparedCall,
    Rule,
)
from agent_sdk.permissions import explain
from agent_sdk.permissions.commands import COMMAND_KEYS, may_remember
from agent_sdk.permissions.modes import (
    DONT_ASK_REASON,
    PLAN_REASON,
    PermissionMode,
    is_inside,
    mode_notice,
    resolve_ask,
)
from agent_sdk.permissions.ruleset import (
    PATH_KEYS,
    PermissionLayers,
    Ruleset,
    about,
    evaluate_layers,
)
from agent_sdk.permissions.wildcard import has_wildcard
from agent_sdk.tools.path_text import portable, relative_to

PermissionEvent: TypeAlias = PermissionAsked | PermissionReplied | Notice
ReplyKind: TypeAlias = Literal["once", "always", "reject"]


class PermissionReply(Struct, frozen=True, kw_only=True):
    """A person's answer.

    Attributes:
        reply: ``once`` (also for the same thing until the run ends), ``always``
            (stored with the session) or ``reject``.
        input_hash: The hash that came with what was shown. An answer that
            allows is refused if it was given for another input.
        reason: What the model is told about a rejection.
    """

    reply: ReplyKind
    input_hash: str = ""
    reason: str = ""


class Asker(Protocol):
    """Whoever can put a question to a person.

    Several questions may wait at a time; which one is shown is the asker's
    affair. A question that is no longer wanted is cancelled. An asker that
    fails counts as gone, and the call is refused.
    """

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        """Put the question and return the answer."""
        ...


class _Settled(Struct, frozen=True):
    """How a question ended without an answer of its own."""

    kind: Literal["covered", "expired"]
    reason: str
    reply: Literal["once", "always", "expired"] = "expired"


class _Question(Struct):
    prepared: PreparedCall
    asked: PermissionAsked
    outcome: "asyncio.Future[PermissionReply | _Settled]"


class PermissionEngine:
    """Decides about the calls of one session."""

    def __init__(
        self,
        *,
        layers: PermissionLayers,
        mode: PermissionMode,
        roots: Sequence[str],
        asker: Asker | None,
        remember: Callable[[Sequence[Rule]], Awaitable[None]],
        emit: Callable[[PermissionEvent], None],
        ids: Ids,
    ) -> None:
        """Create an engine.

        Args:
            layers: The rules.
            mode: The permission mode to start with.
            roots: The session's folders, absolute and real paths.
            asker: Who answers questions; None refuses at once what would be asked.
            remember: Stores rules that *always* made; returns when they are durable.
            emit: Publishes questions, answers and notices; never raises.
            ids: Source of the questions' ids.
        """
        self._layers = layers
        self._about: dict[str, tuple[Ruleset, ...]] = {}  # the layers, by permission key
        self._mode: PermissionMode = mode
        self._roots = tuple(map(portable, roots))
        self._asker = asker
        self._remember = remember
        self._emit = emit
        self._ids = ids
        self._once: set[tuple[str, str]] = set()
        self._questions: dict[str, _Question] = {}
        self._owner = TaskOwner(name="permissions")
        self._disposed = False
        self._notice = mode_notice(mode)

    @property
    def mode(self) -> PermissionMode:
        """The mode in force."""
        return self._mode

    @property
    def granted(self) -> Ruleset:
        """The rules that answers of *always* have made, the stored ones included."""
        return self._layers.granted

    @property
    def waiting(self) -> tuple[PermissionAsked, ...]:
        """The questions that have no answer yet, oldest first."""
        return tuple(question.asked for question in self._questions.values())

    def set_mode(self, mode: PermissionMode) -> None:
        """Change the mode; questions that it answers are withdrawn."""
        self._mode = mode
        self._notice = mode_notice(mode)
        self._announce()
        self._settle_covered("once", f"permission mode {mode!r}")

    def decide(self, prepared: PreparedCall) -> Decision | None:
        """Decide without asking anybody.

        Returns:
            The decision; None if a person would be asked. Never raises.
        """
        self._announce()
        found = self._judge(prepared)
        return found if isinstance(found, Decision) else None

    def reads_freely(self, path: str) -> bool:
        """Return whether a file may be read without a question; asks nobody.

        For tools that look at many files in one call, of which each would
        need an answer of its own. May be called on any thread.

        Args:
            path: Real path, portable.
        """
        relative = tuple(filter(None, (relative_to(path, root) for root in self._roots)))
        request = PermissionRequest(permission="read", patterns=(path,), aliases=relative)
        action = self._by_rules(request)
        return action == "allow" or (action == "ask" and self._without_asking(request) == "allow")

    async def authorize(self, prepared: PreparedCall, signal: AbortSignal) -> Decision:
        """Decide whether the call may run; may ask a person and wait.

        Args:
            prepared: The call, with exactly the input that would run.
            signal: Withdraws the question when it is set.

        Returns:
            The decision, bound to ``prepared.input_hash``.

        Raises:
            ZpiError: What ``remember`` raised; the call must not run then.
        """
        self._announce()
        found = self._judge(prepared)
        if isinstance(found, Decision):
            return found
        if signal.aborted or self._disposed:
            return _refused(prepared, explain.withdrawn(signal.reason), by="expired")
        if self._asker is None:
            protected = any(request.protected for request in found)
            return _refused(
                prepared,
                explain.nobody_to_ask(found, self._mode),
                by="protected" if protected else "no_asker",
            )
        return await self._ask(prepared, found, signal, asker=self._asker)

    def end_run(self) -> None:
        """Forget the answers of *once*; questions that still wait expire."""
        self._once.clear()
        self._expire("the run has ended")

    def dispose(self) -> None:
        """Expire every question at once; from now on whatever would be asked is refused."""
        self._disposed = True
        self._once.clear()
        self._expire("the session is closed")
        self._owner.cancel()

    async def aclose(self) -> None:
        """Dispose, and wait until the asker has let go of its questions."""
        self.dispose()
        await self._owner.aclose()

    # ------------------------------------------------------------- judging

    def _judge(self, prepared: PreparedCall) -> Decision | tuple[PermissionRequest, ...]:
        """Return a decision, or the requests that a person must answer."""
        requests = _with_outside(prepared.requests, self._roots)
        actions = [(request, self._by_rules(request)) for request in requests]
        for request, action in actions:
            if action == "deny":
                return _refused(prepared, explain.denied(request), by="rule")
        if self._mode == "plan" and not prepared.tool.metadata.read_only:
            return _refused(prepared, PLAN_REASON, by="mode")
        open_requests = []
        by = "rule"
        for request, action in actions:
            if request.protected or action == "ask":
                answer = self._without_asking(request)
                if answer == "deny":
                    return _refused(prepared, DONT_ASK_REASON, by="mode")
                if answer == "ask":
                    open_requests.append(request)
                else:
                    by = "user" if self._answered(request) else "mode"
        if open_requests:
            return tuple(open_requests)
        return Decision(allowed=True, by=by, input_hash=prepared.input_hash)

    def _by_rules(self, request: PermissionRequest) -> Action:
        key = request.permission
        if key not in self._about:
            self._about[key] = about(self._layers.in_order(), key)
        return evaluate_layers(self._about[key], request)

    def _without_asking(self, request: PermissionRequest) -> Action:
        if self._answered(request):
            return "allow"
        return resolve_ask(self._mode, request, self._roots)

    def _answered(self, request: PermissionRequest) -> bool:
        """Whether *once* was said to the same thing in this run."""
        return (
            not request.protected
            and bool(request.patterns)
            and all((request.permission, pattern) in self._once for pattern in request.patterns)
        )

    # -------------------------------------------------------------- asking

    async def _ask(
        self,
        prepared: PreparedCall,
        requests: tuple[PermissionRequest, ...],
        signal: AbortSignal,
        *,
        asker: Asker,
    ) -> Decision:
        asked = PermissionAsked(
            request_id=self._ids.new(),
            call=prepared.call,
            requests=tuple(_offering(request) for request in requests),
            input_hash=prepared.input_hash,
        )
        outcome: asyncio.Future[PermissionReply | _Settled] = (
            asyncio.get_running_loop().create_future()
        )
        self._questions[asked.request_id] = _Question(prepared, asked, outcome)
        self._emit(asked)
        task = self._owner.start(asker.ask(asked), name=f"ask {prepared.call.name}")
        task.add_done_callback(lambda done: _pass_on(done, outcome))
        withdraw = signal.on_abort(
            lambda: _settle(outcome, _Settled("expired", explain.withdrawn(signal.reason)))
        )
        try:
            answer = await outcome
        except asyncio.CancelledError:
            self._replied(asked, "expired", "the call was cancelled")
            raise
        finally:
            withdraw()
            task.cancel()
            self._questions.pop(asked.request_id, None)
        return await self._conclude(prepared, asked, answer)

    async def _conclude(
        self, prepared: PreparedCall, asked: PermissionAsked, answer: PermissionReply | _Settled
    ) -> Decision:
        if isinstance(answer, _Settled):
            self._replied(asked, answer.reply, answer.reason)
            if answer.kind == "expired":
                return _refused(prepared, answer.reason, by="expired")
            return Decision(allowed=True, by="user", input_hash=prepared.input_hash)
        if answer.reply == "reject":
            self._replied(asked, "reject", answer.reason)
            return _refused(prepared, explain.rejected(answer.reason), by="user")
        if answer.input_hash != prepared.input_hash:
            self._replied(asked, "expired", explain.OTHER_INPUT)
            return _refused(prepared, explain.OTHER_INPUT, by="expired")
        await self._grant(asked, answer.reply)
        return Decision(allowed=True, by="user", input_hash=prepared.input_hash)

    async def _grant(self, asked: PermissionAsked, reply: Literal["once", "always"]) -> None:
        """Take note of an answer that allows; *always* is stored first."""
        rules: list[Rule] = []
        for request in asked.requests:
            if reply == "always":
                rules += request.always
            if not request.protected:
                self._once.update((request.permission, pattern) for pattern in request.patterns)
        if rules:
            try:
                await self._remember(rules)
            except BaseException:
                self._replied(asked, "expired", "the answer could not be stored")
                raise
            self._layers = msgspec.structs.replace(
                self._layers, granted=(*self._layers.granted, *rules)
            )
            self._about.clear()
        given: Literal["once", "always"] = "always" if rules else "once"
        self._replied(asked, given, "")
        self._settle_covered(given, f"covered by the answer to {asked.request_id}")

    def _settle_covered(self, reply: Literal["once", "always"], reason: str) -> None:
        """Withdraw the questions that have become needless."""
        for question in tuple(self._questions.values()):
            found = self._judge(question.prepared)
            if not isinstance(found, Decision):
                continue
            settled = _Settled("covered", reason, reply)
            if not found.allowed:
                settled = _Settled("expired", found.reason)
            _settle(question.outcome, settled)

    def _expire(self, reason: str) -> None:
        for question in tuple(self._questions.values()):
            _settle(question.outcome, _Settled("expired", explain.withdrawn(reason)))

    def _replied(
        self,
        asked: PermissionAsked,
        reply: Literal["once", "always", "reject", "expired"],
        reason: str,
    ) -> None:
        self._emit(PermissionReplied(asked.request_id, asked.call.id, reply, reason))

    def _announce(self) -> None:
        notice, self._notice = self._notice, None
        if notice:
            self._emit(notice)


def _refused(prepared: PreparedCall, reason: str, *, by: str) -> Decision:
    return Decision(allowed=False, reason=reason, by=by, input_hash=prepared.input_hash)


def _with_outside(
    requests: Sequence[PermissionRequest], roots: Sequence[str]
) -> tuple[PermissionRequest, ...]:
    """Add the request for files outside the session's folders, if the tool did not.

    Tools declare it themselves, with better words. This is the second lock: no
    rule that lets ``read`` be used everywhere opens the rest of the disk.
    """
    if any(request.permission == "external_directory" for request in requests):
        return tuple(requests)
    outside = dict.fromkeys(
        pattern
        for request in requests
        if request.permission in PATH_KEYS
        for pattern in request.patterns
        if os.path.isabs(pattern) and not is_inside(pattern, roots)  # noqa: PTH117 - text only
    )
    if not outside:
        return tuple(requests)
    extra = PermissionRequest(
        permission="external_directory",
        patterns=tuple(outside),
        aliases=tuple(alias for request in requests for alias in request.aliases),
        title="Files outside the session's folder",
    )
    return (*requests, extra)


def _offering(request: PermissionRequest) -> PermissionRequest:
    """Return the request with *always* only where it means what is shown.

    Rules have no way to quote a wildcard: stored as a rule, the command
    ``rm *.log`` would allow much more than itself.
    """
    wanted = request.always
    harmless = not request.protected and all(
        (not has_wildcard(rule.pattern) or rule.pattern not in request.patterns)
        and (rule.permission not in COMMAND_KEYS or may_remember(rule.pattern))
        and rule.action == "allow"
        for rule in wanted
    )
    return request if harmless else msgspec.structs.replace(request, always=())


def _settle(
    outcome: "asyncio.Future[PermissionReply | _Settled]", value: PermissionReply | _Settled
) -> None:
    if not outcome.done():
        outcome.set_result(value)


def _pass_on(
    done: "asyncio.Task[PermissionReply]",
    outcome: "asyncio.Future[PermissionReply | _Settled]",
) -> None:
    if done.cancelled():
        _settle(outcome, _Settled("expired", explain.ASKER_GONE))
        return
    error = done.exception()
    if error is not None:
        _settle(outcome, _Settled("expired", f"{explain.ASKER_GONE} ({type(error).__name__})"))
        return
    _settle(outcome, done.result())
