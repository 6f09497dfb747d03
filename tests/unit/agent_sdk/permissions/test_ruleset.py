from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import ConfigurationError, InvalidInput
from agent_sdk.loop.types import Action, PermissionRequest, Rule
from agent_sdk.permissions.ruleset import (
    BUILTIN_RULES,
    KEYS,
    PermissionLayers,
    Ruleset,
    evaluate_layers,
    evaluate_rules,
    ruleset_from_config,
    tightening_rules,
)
from agent_sdk.permissions.tool_list import rules_from_tool_list

# ----------------------------------------------------- against a slow oracle


def slow_match(pattern: str, value: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(slow_match(pattern[1:], value[at:]) for at in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and slow_match(pattern[1:], value[1:])


def says(rules: Ruleset, key: str, value: str) -> list[Action]:
    return [
        r.action for r in rules if slow_match(r.permission, key) and slow_match(r.pattern, value)
    ]


def oracle(layers: list[Ruleset], key: str, value: str) -> Action:
    for rules in layers:
        if says(rules, key, value)[-1:] == ["deny"]:
            return "deny"
    flat: list[Action] = [action for rules in layers for action in says(rules, key, value)]
    return flat[-1] if flat else "ask"


keys = st.sampled_from(["read", "edit", "*", "mcp/s/t", "mcp/*", "mcp/s/*"])
real_keys = st.sampled_from(["read", "edit", "mcp/s/t"])
texts = st.text("ab/", min_size=1, max_size=4)
patterns = st.text("ab/*?", min_size=1, max_size=4)
actions: st.SearchStrategy[Action] = st.sampled_from(["allow", "deny", "ask"])
rulesets = st.lists(st.builds(Rule, keys, patterns, actions), max_size=4).map(tuple)
layerings = st.lists(rulesets, max_size=4)


@given(layerings, real_keys, st.lists(texts, min_size=1, max_size=3))
def test_layers_agree_with_the_oracle(layers: list[Ruleset], key: str, values: list[str]) -> None:
    request = PermissionRequest(permission=key, patterns=tuple(values))
    expected = [oracle(layers, key, value) for value in values]
    worst = "deny" if "deny" in expected else "ask" if "ask" in expected else "allow"
    assert evaluate_layers(layers, request) == worst


@given(layerings, real_keys, texts)
def test_one_ruleset_after_the_other(layers: list[Ruleset], key: str, value: str) -> None:
    flat = [action for rules in layers for action in says(rules, key, value)]
    assert evaluate_rules(layers, key, value) == (flat[-1] if flat else None)


@given(layerings, real_keys, texts, st.lists(texts, max_size=3))
def test_no_layer_lifts_what_another_denies(
    layers: list[Ruleset], key: str, value: str, aliases: list[str]
) -> None:
    request = PermissionRequest(permission=key, patterns=(value,), aliases=tuple(aliases))
    alone = [evaluate_layers([rules], request) for rules in layers]
    assert (evaluate_layers(layers, request) == "deny") == ("deny" in alone)


@given(rulesets, real_keys, texts, st.lists(texts, max_size=3))
def test_other_spellings_only_tighten(
    rules: Ruleset, key: str, value: str, aliases: list[str]
) -> None:
    order = ["allow", "ask", "deny"]
    plain = PermissionRequest(permission=key, patterns=(value,))
    spelled = PermissionRequest(permission=key, patterns=(value,), aliases=tuple(aliases))
    without, with_aliases = evaluate_layers([rules], plain), evaluate_layers([rules], spelled)
    assert order.index(with_aliases) >= order.index(without)


# ------------------------------------------------------------------ aliases


def read(path: str, *aliases: str) -> PermissionRequest:
    return PermissionRequest(permission="read", patterns=(path,), aliases=aliases)


def test_a_denial_sees_every_spelling_of_a_path() -> None:
    layers = [(Rule("read", "*", "allow"),), (Rule("read", "*/Secret/*", "deny"),)]
    for path in ("/a/Secret/x", "/a/SECRET/x", "/a/secret/x"):
        assert evaluate_layers(layers, read(path)) == "deny"
    assert evaluate_layers(layers, read("/a/x", "/a/Secret/link")) == "deny"
    cafe = [(Rule("read", "*", "allow"), Rule("read", "/caf\u00e9/*", "deny"))]
    assert evaluate_layers(cafe, read("/cafe\u0301/x")) == "deny"
    assert evaluate_layers(cafe, read("/CAFÉ/x")) == "deny"


def test_allowing_looks_at_the_real_path_only() -> None:
    layers = [(Rule("read", "/pub/*", "allow"),)]
    assert evaluate_layers(layers, read("/secret/x", "/pub/link")) == "ask"
    assert evaluate_layers(layers, read("/PUB/x")) == "ask"


def test_an_exception_holds_for_a_file_with_several_spellings() -> None:
    rules = (Rule("read", "*", "deny"), Rule("read", "/pub/*", "allow"))
    assert evaluate_layers([rules], read("/pub/x", "pub/x", "./x")) == "allow"


def test_a_link_with_a_careful_name_is_asked_about() -> None:
    rules = (Rule("read", "*", "allow"), Rule("read", "*.env", "ask"))
    assert evaluate_layers([rules], read("/a/settings", "/a/.env")) == "ask"
    assert (
        evaluate_layers(
            [rules, (Rule("read", "/a/settings", "allow"),)], read("/a/settings", "/a/.env")
        )
        == "allow"
    )


def test_a_request_without_patterns_is_asked_about() -> None:
    request = PermissionRequest(permission="read", patterns=())
    assert evaluate_layers([(Rule("*", "*", "allow"),)], request) == "ask"


# ------------------------------------------------------------------- layers


@pytest.mark.parametrize(
    ("key", "pattern", "expected"),
    [
        *((key, "/x", "allow") for key in ("read", "glob", "grep", "list", "todo", "git_read")),
        ("read", "/x/.env", "ask"),
        ("read", "/x/prod.env", "ask"),
        ("read", "/x/.env.local", "ask"),
        ("read", "/x/environment.py", "allow"),
        *((key, "x", "ask") for key in ("edit", "bash", "terminal", "webfetch", "task", "local")),
        *((key, "x", "ask") for key in ("git_write", "external_directory", "mcp/s/t", "unknown")),
    ],
)
def test_the_baseline(key: str, pattern: str, expected: str) -> None:
    request = PermissionRequest(permission=key, patterns=(pattern,))
    assert evaluate_layers([BUILTIN_RULES], request) == expected
    assert evaluate_layers(PermissionLayers().in_order(), request) == expected


def test_the_baseline_is_about_known_keys() -> None:
    assert {rule.permission for rule in BUILTIN_RULES} <= {*KEYS, "mcp/*"}


def test_a_project_only_tightens_but_a_person_has_the_last_word() -> None:
    request = PermissionRequest(permission="bash", patterns=("ls",))
    allow: Ruleset = (Rule("bash", "*", "allow"),)
    ask: Ruleset = (Rule("bash", "*", "ask"),)
    deny: Ruleset = (Rule("bash", "*", "deny"),)

    def judged(**layers: Ruleset) -> Action:
        return evaluate_layers(PermissionLayers(**layers).in_order(), request)

    assert judged(project=allow) == "ask"
    assert judged(user=allow) == "allow"
    assert judged(agent=allow, project=ask) == "ask"
    assert judged(project=ask, session=allow) == "allow"
    assert judged(project=ask, granted=allow) == "allow"
    assert judged(project=deny, session=allow, granted=allow) == "deny"
    assert judged(session=deny, granted=allow) == "deny"
    for first, second in combinations(("builtin", "user", "agent", "session", "granted"), 2):
        assert judged(**{first: deny, second: allow}) == "deny"
        assert judged(**{first: ask, second: allow}) == "allow"
        assert judged(**{first: allow, second: ask}) == "ask"
        assert judged(**{first: allow, second: deny}) == "deny"


def test_a_projects_rules_are_split() -> None:
    rules = (Rule("bash", "a", "allow"), Rule("bash", "b", "ask"), Rule("bash", "c", "deny"))
    assert tightening_rules(rules) == (rules[1:], rules[:1])


# ------------------------------------------------------------ configuration


def test_the_form_of_opencode() -> None:
    config = {
        "bash": "ask",
        "read": {"*": "allow", "*.env": "ask"},
        "mcp/github/*": "deny",
        "*": {"x": "deny"},
    }
    assert ruleset_from_config(config, source="here") == (
        Rule("bash", "*", "ask"),
        Rule("read", "*", "allow"),
        Rule("read", "*.env", "ask"),
        Rule("mcp/github/*", "*", "deny"),
        Rule("*", "x", "deny"),
    )
    assert ruleset_from_config({}, source="here") == ()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ([], "'permissions' must be an object"),
        ({"bsh": "ask"}, "'permissions.bsh' is no permission"),
        ({"bash": "yes"}, "'permissions.bash' must be allow, deny or ask, not 'yes'"),
        ({"bash": None}, "'permissions.bash' must be an action"),
        ({"bash": {"git *": "no"}}, "'permissions.bash.git *' must be"),
        ({"bash": {"git *": ["allow"]}}, "'permissions.bash.git *' must be"),
        ({5: "ask"}, "'permissions.5'"),
    ],
)
def test_a_bad_entry_is_named(config: object, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ruleset_from_config(config, source="settings.json")
    assert expected in caught.value.message
    assert caught.value.message.startswith("settings.json: ")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/*", "/p/src/*"),
        ("./src/*", "/p/src/*"),
        ("a.txt", "/p/a.txt"),
        ("*.env", "*.env"),
        ("/etc/*", "/etc/*"),
        ("~/x/*", "/home/me/x/*"),
        ("?.txt", "/p/?.txt"),
    ],
)
def test_file_patterns_are_relative_to_the_folder(pattern: str, expected: str) -> None:
    (rule,) = ruleset_from_config(
        {"edit": {pattern: "deny"}}, source="s", base="/p", home="/home/me"
    )
    assert rule.pattern == expected
    (other,) = ruleset_from_config({"bash": {pattern: "deny"}}, source="s", base="/p")
    assert other.pattern == pattern


# --------------------------------------------------------------- tool lists


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read", [("read", "*")]),
        ("Read", [("read", "*")]),
        ("Edit", [("edit", "*")]),
        ("Write", [("edit", "*")]),
        ("MultiEdit", [("edit", "*")]),
        ("ApplyPatch", [("edit", "*")]),
        ("apply_patch", [("edit", "*")]),
        ("LS", [("list", "*")]),
        ("Bash", [("bash", "*")]),
        ("Bash(*)", [("bash", "*")]),
        ("Bash(git *)", [("bash", "git *")]),
        ("bash(git status)", [("bash", "git status")]),
        ("Bash(npm run test:*)", [("bash", "npm run test"), ("bash", "npm run test *")]),
        ("Bash(echo (a, b))", [("bash", "echo (a, b)")]),
        ("Edit(src/*)", [("edit", "/p/src/*")]),
        ("Read(~/notes/*)", [("read", "/home/me/notes/*")]),
        ("WebFetch", [("webfetch", "*")]),
        ("WebSearch", [("webfetch", "search:*")]),
        ("TodoWrite", [("todo", "*")]),
        ("Task", [("task", "*")]),
        ("git_write", [("git_write", "*")]),
        ("external_directory", [("external_directory", "*")]),
        ("mcp/github/create", [("mcp/github/create", "*")]),
        ("mcp/github/*", [("mcp/github/*", "*")]),
        ("mcp__github__create", [("mcp/github/create", "*")]),
        ("mcp__github", [("mcp/github/*", "*")]),
        ("*", [("*", "*")]),
        ("Read, Grep  Glob", [("read", "*"), ("grep", "*"), ("glob", "*")]),
        ("Read,Read", [("read", "*")]),
        (" , ", []),
    ],
)
def test_tool_names(name: str, expected: list[tuple[str, str]]) -> None:
    found = rules_from_tool_list([name], base="/p", home="/home/me")
    assert found == tuple(Rule(key, pattern, "allow") for key, pattern in expected)


def test_a_list_may_also_deny() -> None:
    assert rules_from_tool_list(["Bash"], action="deny") == (Rule("bash", "*", "deny"),)
    assert rules_from_tool_list([]) == ()


@pytest.mark.parametrize("name", ["Raed", "mcp/", "mcp__", "Bash extra", "(git *)"])
def test_an_unknown_tool_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rules_from_tool_list([name])
    assert "MultiEdit" in caught.value.hint
    assert "external_directory" in caught.value.hint


@pytest.mark.parametrize("name", ["Bash(git *", "Bash)", "Bash()", "Bash( )", "Bash(a)b"])
def test_brackets_must_match(name: str) -> None:
    with pytest.raises(InvalidInput):
        rules_from_tool_list([name])
