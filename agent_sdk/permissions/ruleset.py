"""Rulesets: where they come from, and what several of them say together. Pure.

A ruleset is a tuple of rules; the last one that matches wins. Layers are laid
over each other in the order builtin, user, agent, project, session, granted:
a later one may turn *ask* into *allow* or tighten, but what one layer denies
stays denied. The project's layer can only tighten, see ``tightening_rules``.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.loop.types import Action, PermissionRequest, Rule
from agent_sdk.permissions.commands import COMMAND_KEYS, is_plain, parts
from agent_sdk.permissions.wildcard import fold, matches
from agent_sdk.tools.path_text import portable

Ruleset: TypeAlias = tuple[Rule, ...]

_ACTIONS: dict[object, Action] = {"allow": "allow", "deny": "deny", "ask": "ask"}

PATH_KEYS = frozenset({"read", "edit", "glob", "grep", "list", "external_directory"})
"""Permission keys whose patterns are files or folders."""

KEYS = (
    *("read", "edit", "glob", "grep", "list", "todo", "bash", "terminal", "webfetch", "task"),
    *("external_directory", "git_read", "git_write", "local"),
)
"""Permission keys that exist by themselves; ``mcp/<server>/<tool>`` come on top."""

BUILTIN_RULES: Ruleset = (
    *(Rule(key, "*", "allow") for key in ("read", "glob", "grep", "list", "todo", "git_read")),
    Rule("read", "*.env", "ask"),
    Rule("read", "*.env.*", "ask"),
    *(Rule(key, "*", "ask") for key in ("edit", "bash", "terminal", "webfetch", "task")),
    *(Rule(key, "*", "ask") for key in ("git_write", "mcp/*", "local", "external_directory")),
)
"""What holds when nobody has said anything. Files outside the session's
folders need ``external_directory`` as well, so ``read`` allows inside only."""


class PermissionLayers(Struct, frozen=True, kw_only=True):
    """The rules of one session, by who made them.

    Attributes:
        builtin: The baseline.
        user: The user's own settings.
        agent: The preset of the agent that runs.
        project: The project's settings; allowing rules in it have no effect.
        session: Given for this session, on the command line for instance.
        granted: Stored by earlier answers of *always*.
    """

    builtin: Ruleset = BUILTIN_RULES
    user: Ruleset = ()
    agent: Ruleset = ()
    project: Ruleset = ()
    session: Ruleset = ()
    granted: Ruleset = ()

    def in_order(self) -> tuple[Ruleset, ...]:
        """Return the layers from the outermost to the innermost."""
        project = tuple(rule for rule in self.project if rule.action != "allow")
        return (self.builtin, self.user, self.agent, project, self.session, self.granted)


def evaluate_rules(
    rulesets: Iterable[Sequence[Rule]], permission: str, pattern: str
) -> Action | None:
    """Return the action of the last rule that matches, over all the rulesets.

    Args:
        rulesets: Laid one after the other.
        permission: Key of the request.
        pattern: What it touches.

    Returns:
        The action; None if no rule matches, which means that somebody is asked.
    """
    found: Action | None = None
    for rules in rulesets:
        rule = _last_match(rules, permission, pattern)
        found = rule.action if rule else found
    return found


def evaluate_layers(layers: Iterable[Sequence[Rule]], request: PermissionRequest) -> Action:
    """Return what the layers say about a whole request.

    Every pattern must be allowed. What any layer denies is denied, also when
    only an alias of it matches, or a part of a compound command.

    Args:
        layers: From the outermost to the innermost.
        request: What is wanted; one without patterns is asked about.
    """
    ordered = tuple(layers)
    if not request.patterns:
        return "ask"
    worst: Action = "allow"
    for pattern in request.patterns:
        action = _evaluate_pattern(ordered, request, pattern)
        if action == "deny":
            return "deny"
        if action == "ask":
            worst = "ask"
    return worst


def about(layers: Iterable[Sequence[Rule]], permission: str) -> tuple[Ruleset, ...]:
    """Return the layers with only the rules that can apply to a permission key."""
    return tuple(
        tuple(rule for rule in rules if matches(rule.permission, permission)) for rules in layers
    )


def _evaluate_pattern(
    layers: Sequence[Sequence[Rule]], request: PermissionRequest, pattern: str
) -> Action:
    key = request.permission
    others = request.aliases
    if key in COMMAND_KEYS:
        others = (*others, *parts(pattern))
    found: Action = "ask"
    for rules in layers:
        rule = _last_match(rules, key, pattern)
        action = _tightened(rules, (key, pattern, others), rule)
        if action == "deny":
            return "deny"
        found = action or found
    return found


def _tightened(
    rules: Sequence[Rule], what: tuple[str, str, Sequence[str]], rule: Rule | None
) -> Action | None:
    """Return what one layer says, its rules about other spellings included.

    A rule that matches the pattern itself has had its say, and only one that
    newly matches by the other spelling counts. Otherwise ``*: deny`` followed
    by an exception would deny the exception too.
    """
    key, pattern, others = what
    action: Action | None = rule.action if rule else None
    if action == "deny":
        return action
    for other in others:
        found = _last_match(rules, key, other)
        if found is None or found.action == "allow" or _covers(found, key, pattern):
            continue
        if found.action == "deny":
            return "deny"
        action = "ask"
    return action


def _last_match(rules: Sequence[Rule], permission: str, value: str) -> Rule | None:
    for rule in reversed(rules):
        if _covers(rule, permission, value):
            return rule
    return None


def _covers(rule: Rule, permission: str, value: str) -> bool:
    if not matches(rule.permission, permission):
        return False
    pattern = rule.pattern
    if rule.action == "deny":
        return matches(pattern, value) or matches(fold(pattern), fold(value))
    if not matches(pattern, value):
        return False
    if rule.action == "ask" or permission not in COMMAND_KEYS:
        return True
    return pattern == value or not pattern.strip("*") or is_plain(value)


def ruleset_from_config(config: object, *, source: str, base: str = "", home: str = "") -> Ruleset:
    """Return the rules of a configuration: ``{"bash": "ask", "read": {"*.env": "deny"}}``.

    Args:
        config: The decoded JSON value.
        source: What to call it in errors, a file name for instance.
        base: Folder that relative file patterns are relative to; empty leaves
            them as they are.
        home: The folder that a leading ``~/`` stands for; empty leaves it.

    Raises:
        ConfigurationError: If it has another form; the text names the key.
    """
    if not isinstance(config, Mapping):
        raise _bad(source, "permissions", "must be an object of permission keys")
    rules: list[Rule] = []
    for key, value in config.items():
        if not isinstance(key, str) or not known_key(key):
            raise _bad(source, f"permissions.{key}", f"is no permission; known: {_known()}")
        entries = {"*": value} if isinstance(value, str) else value
        if not isinstance(entries, Mapping):
            raise _bad(source, f"permissions.{key}", "must be an action, or an object of patterns")
        for pattern, action in entries.items():
            if not isinstance(action, str) or action not in _ACTIONS:
                where = f"permissions.{key}" + ("" if entries is not value else f".{pattern}")
                raise _bad(source, where, f"must be allow, deny or ask, not {action!r}")
            anchor = anchored(key, str(pattern), base=base, home=home)
            rules.append(Rule(key, anchor, _ACTIONS[action]))
    return tuple(rules)


def tightening_rules(rules: Iterable[Rule]) -> tuple[Ruleset, Ruleset]:
    """Split the rules of a project file.

    Returns:
        The rules that deny or ask, which hold, and the rules that allow, which
        a project cannot give to itself.
    """
    kept = tuple(rules)
    return (
        tuple(rule for rule in kept if rule.action != "allow"),
        tuple(rule for rule in kept if rule.action == "allow"),
    )


def known_key(key: str) -> bool:
    """Return whether a rule may be about the key."""
    return key == "*" or key in KEYS or key.startswith("mcp/")


def anchored(key: str, pattern: str, *, base: str, home: str) -> str:
    """Return a file pattern as it is matched: against absolute real paths with ``/``.

    ``src/*`` and ``./src/*`` are below ``base``; ``*.env`` and absolute
    patterns stay what they are, and so do patterns that are not about files.
    """
    if key not in PATH_KEYS or not pattern:
        return pattern
    pattern = portable(pattern)
    if home and pattern.startswith("~/"):
        return portable(home).rstrip("/") + pattern[1:]
    if not base or pattern.startswith(("*", "/", "~")) or (os.name == "nt" and pattern[1:2] == ":"):
        return pattern
    return f"{portable(base).rstrip('/')}/{pattern.removeprefix('./')}"


def _known() -> str:
    return ", ".join((*KEYS, "mcp/<server>/<tool>", "*"))


def _bad(source: str, key: str, text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{source}: {key!r} {text}.", hint="Correct the entry; nothing was changed."
    )
