"""What may hide behind an allowed prefix. Each line is something that was tried on a real agent."""

import pytest

from agent_sdk.loop.types import PermissionRequest, Rule
from agent_sdk.permissions.commands import is_plain, may_remember, parts
from agent_sdk.permissions.ruleset import evaluate_layers

ALLOWED = (
    Rule("bash", "git *", "allow"),
    Rule("bash", "find *", "allow"),
    Rule("bash", "rg *", "allow"),
    Rule("bash", "echo *", "allow"),
    Rule("bash", "sort *", "allow"),
    Rule("bash", "npm run *", "allow"),
    Rule("bash", "*/pytest *", "allow"),
    Rule("bash", "make; make install", "allow"),
)

PLAIN = [
    "git status",
    "git log --oneline -5",
    "git commit -m 'a plain message'",
    'git commit -m "it\'s done"',
    "git diff HEAD~1 -- src/a.py",
    "git show v1.0^2",
    "git add *.py",
    "git add src/[ab]?.py",
    "git log --author=me@example.org",
    "find . -name test_main.py -type f",
    "find src -newer a.txt",
    "rg TODO src",
    "rg 'class [A-Z]' -n",
    "echo 漢字",
    "sort -u names.txt",
    "npm run test -- --watch=false",
    ".venv/bin/pytest -q tests/unit",
    "make; make install",  # exactly as the rule has it
]

HIDDEN = [
    # another command behind the first
    "git status; rm -rf /",
    "git status;rm x",
    "git status && rm x",
    "git status || rm x",
    "git status & rm x",
    "git status | sh",
    "git status |& sh",
    "git log\nrm x",
    "git log\rrm x",
    "git log\r\nrm x",
    "git log \\\nrm",
    "make; make install; rm x",
    # substitution
    "git log $(rm x)",
    "git log `rm x`",
    'git log "$(rm x)"',
    "git log <(rm x)",
    "git log >(rm x)",
    "echo ${x:=$(rm x)}",
    "echo $x",
    "echo $IFS",
    "git$IFS status",
    "git log$IFS-c",
    "echo $'\\x3b'",
    "echo $((1+1))",
    "echo ${PATH}",
    # writing
    "git log > /etc/passwd",
    "git log >> ~/.bashrc",
    "echo x>y",
    "git diff 2> err",
    "git apply < patch",
    "git log &> out",
    "git hash-object <<EOF",
    "git hash-object <<< text",
    # grouping
    "echo a; { rm x; }",
    "git log { rm",
    "git {log,-c}",
    "echo (rm x)",
    "git log ) rm x (",
    # what cannot be seen
    "git log\u2028rm x",
    "git log\u2029rm x",
    "git log \u202e x mr",
    "git log \u200brm",
    "git log \U000e0041",
    "git log\u00a0rm",
    "git log \x1b[2K",
    "git log \x00rm",
    "git log\x0brm",
    "git log \u0085rm",
    # options that run or write
    "git -c core.pager=touch log",
    "git -ccore.pager=touch log",
    "git -C /elsewhere status",
    "git --git-dir=/tmp/x log",
    "git --exec-path=/tmp log",
    "git '-c' core.pager=x log",
    'git "--output=x" show',
    "git show --output=/tmp/x",
    "git diff --ext-diff",
    "git grep -Ovi x",
    "git clone --upload-pack=touch x y",
    "git rebase --exec=touch",
    "git rebase -x touch",
    "git rebase -xtouch HEAD~1",
    "git rebase -ix touch",
    "git ls-remote --upl=touch .",
    "git diff --outp=x",
    "git submodule foreach touch x",
    "git bisect run touch",
    "git config alias.x !touch",
    "find . -exec rm",
    "find . -execdir rm",
    "find . -ok rm",
    "find . -okdir rm",
    "find . -delete",
    "find . '-delete'",
    "find . -fprintf /tmp/x a",
    "find . -fls /tmp/x",
    "rg --pre=sh x",
    "rg --pre sh x",
    "rg --hostname-bin=sh x",
    "sort -o /etc/passwd x",
    "sort -oout x",
    "sort --output=x y",
    "sort -uo out x",
    "sort --o=out x",
    "sort --compress-program=sh x",
    # something else at the front
    "A=b git status",
    " git status",
    "\tgit status",
    "sudo git status",
    "env git status",
    "GIT status",
    "gitk --all",
    "git",
    "xargs git status",
    "sh -c 'git status'",
    "export A=b",
    "cd /tmp && git status",
    "/tmp/git status",
]


def request(command: str) -> PermissionRequest:
    return PermissionRequest(permission="bash", patterns=(command,))


def test_the_corpus_is_large_enough() -> None:
    assert len(set(PLAIN + HIDDEN)) >= 100


@pytest.mark.parametrize("command", PLAIN)
def test_a_prefix_covers_plain_commands(command: str) -> None:
    assert evaluate_layers([ALLOWED], request(command)) == "allow"


@pytest.mark.parametrize("command", HIDDEN)
def test_a_prefix_covers_nothing_else(command: str) -> None:
    assert evaluate_layers([ALLOWED], request(command)) == "ask"


@pytest.mark.parametrize("command", HIDDEN)
def test_the_bare_star_and_the_exact_command_cover_anything(command: str) -> None:
    assert evaluate_layers([(Rule("bash", "*", "allow"),)], request(command)) == "allow"
    assert evaluate_layers([(Rule("bash", command, "allow"),)], request(command)) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("rm x", "ls; rm x", "ls;rm x", "ls && rm x", "ls | rm x", "ls & rm x", "ls\nrm x"),
        *("echo $(rm x)", "echo `rm x`", "(rm x)", "{ rm x; }", "A=b rm x", "A=1 B=2 rm x"),
        *("! rm x", "if true; then rm x; fi", "while rm x; do ls; done", "time rm x"),
        *("for i in a; do rm x; done", "RM x", "exec rm x", "ls;  rm x", "a=$(rm x)"),
        *("\\rm x", "'rm' x", '"rm" x', "r''m x", "/bin/rm x", "ls; /bin/rm x", '"/bin/rm" x'),
        *(
            ">out rm x",
            ">|out rm x",
            "2>&1 rm x",
            "> out rm x",
            "&>out rm x",
            "</dev/null A=b rm x",
        ),
    ],
)
def test_a_denied_prefix_is_found_wherever_it_stands(command: str) -> None:
    layers = [(Rule("bash", "*", "allow"),), (Rule("bash", "rm *", "deny"),)]
    assert evaluate_layers(layers, request(command)) == "deny"
    later = [*layers, (Rule("bash", "*", "allow"), Rule("bash", command, "allow"))]
    assert evaluate_layers(later, request(command)) == "deny"


def test_an_asking_prefix_is_found_in_a_part_too() -> None:
    rules = (Rule("bash", "*", "allow"), Rule("bash", "git push *", "ask"))
    assert evaluate_layers([rules], request("cd x && git push origin")) == "ask"
    assert evaluate_layers([rules], request("cd x && git pull")) == "allow"


def test_an_exception_from_a_denial_stays_one() -> None:
    rules = (Rule("bash", "*", "deny"), Rule("bash", "git *", "allow"))
    assert evaluate_layers([rules], request("git status")) == "allow"
    assert evaluate_layers([rules], request("git status; rm x")) == "deny"


def test_other_permissions_have_no_shell() -> None:
    rules = (Rule("edit", "/a/*", "allow"),)
    path = PermissionRequest(permission="edit", patterns=("/a/x & y (1).txt",))
    assert evaluate_layers([rules], path) == "allow"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("git status", True),
        ("git commit *", True),
        ("npm run *", True),
        ("rm -rf build", True),
        ("python x.py", True),
        ("python *", False),
        ("/usr/bin/python3 *", False),
        ("sh *", False),
        ("bash -c *", False),
        ("env *", False),
        ("sudo *", False),
        ("xargs *", False),
        ("find *", False),
        ("*", False),
        ("*rm", False),
        ("g?t *", False),
    ],
)
def test_what_an_answer_may_store(pattern: str, expected: bool) -> None:
    assert may_remember(pattern) is expected


def test_parts_of_one_plain_command() -> None:
    assert parts("git status") == ()
    assert parts("") == ()
    assert is_plain("git status")
