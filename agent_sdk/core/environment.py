"""The environment that children get: what is on a list, and nothing secret. Pure.

A list of what may pass is the only kind that fails safely: every new tool
brings a variable with a key in it, and none of them will be on this list.
"""

import os
import re
from collections.abc import Iterable, Mapping

_ALLOWED = frozenset(
    {
        # who and where
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "COLORTERM", "TMPDIR"),
        *("TZ", "USER", "HOSTNAME", "PWD", "EDITOR", "VISUAL", "CI", "SOURCE_DATE_EPOCH"),
        # toolchains
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
        *("UV_CACHE_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "POETRY_HOME", "PYTHONUTF8"),
        *("JAVA_HOME", "JDK_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "MAVEN_HOME", "M2_HOME"),
        *("SDKMAN_DIR", "ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME"),
        *("GOPATH", "GOROOT", "GOBIN", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOFLAGS"),
        *("CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"),
        *("NVM_DIR", "NVM_BIN", "FNM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR"),
        *("RBENV_ROOT", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "DOTNET_ROOT", "HOMEBREW_PREFIX"),
        *("ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "GHCUP_INSTALL_BASE_PREFIX", "OPAMROOT"),
        *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "CMAKE_GENERATOR"),
        *("PKG_CONFIG_PATH", "CUDA_HOME", "NIX_PATH", "NIX_PROFILES"),
        # how to get out of this network, and whom to believe there
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "UV_INDEX_URL"),
        *("UV_DEFAULT_INDEX", "GIT_SSL_CAINFO"),
        # Windows
        *("ALLUSERSPROFILE", "APPDATA", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)"),
        *("COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "MSYSTEM"),
        *("NUMBER_OF_PROCESSORS", "OS", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA"),
        *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PUBLIC", "SYSTEMDRIVE"),
        *("SYSTEMROOT", "TEMP", "TMP", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR"),
        *("VCINSTALLDIR", "VCTOOLSINSTALLDIR", "WINDOWSSDKDIR", "INCLUDE", "LIB", "LIBPATH"),
    }
)
"""Names in upper case: ``http_proxy`` is as good as ``HTTP_PROXY``."""

_ALLOWED_PATTERN = re.compile(r"LC_[A-Z]+|XDG_[A-Z]+_(DIRS?|HOME)")

_SECRET_NAME = re.compile(r"key|token|secret|passw|passphrase|credential", re.IGNORECASE)
_LOGIN_IN_ADDRESS = re.compile(r"://[^/?#\s]*@")

QUIET_DEFAULTS: Mapping[str, str] = {
    # A question for a password would wait for ever: there is nobody to answer.
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}
"""What a command without a terminal needs so that it does not wait for a person.

``NO_COLOR`` is not among them: colours are taken out of the output anyway, and
setting it would change what a program under test does.
"""


def child_environment(
    host: Mapping[str, str],
    *,
    tool_env: Mapping[str, str] | None = None,
    inherit: bool = True,
) -> dict[str, str]:
    """Return the environment of a shell or search child.

    Args:
        host: The program's own environment. Of it only listed names pass, none
            that sounds like a secret, and no address with a login in it.
            ``SSH_AUTH_SOCK`` and displays must be given in ``tool_env``.
        tool_env: Variables that the user gave for children; they pass as they
            are and win.
        inherit: False leaves nothing but ``tool_env``.
    """
    given = dict(tool_env or {})
    if not inherit:
        return given
    passed = {name: value for name, value in host.items() if _passes(name, value)}
    for name in [name for name in passed if name.upper() == "PATH"]:
        passed[name] = clean_path(passed[name])
    return {**passed, **QUIET_DEFAULTS, **given}


def clean_path(path: str) -> str:
    """Return a search path without empty and relative entries.

    Those stand for the current folder, so that a program that was planted in
    a project would be found before the real one.
    """
    return os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))


def search_path(env: Mapping[str, str], *, outside: Iterable[str] = ()) -> list[str]:
    """Return the folders of ``PATH`` in which programs may be looked up.

    Args:
        env: An environment; a missing ``PATH`` gives no folders.
        outside: Real paths of folders, such as the project; entries that lie
            in one of them are left out.
    """
    roots = [os.path.realpath(folder) for folder in outside]
    entries = clean_path(env.get("PATH", "")).split(os.pathsep)
    return [entry for entry in entries if entry and not any(_inside(entry, r) for r in roots)]


def _passes(name: str, value: str) -> bool:
    upper = name.upper()
    if upper not in _ALLOWED and not _ALLOWED_PATTERN.fullmatch(upper):
        return False
    return not _SECRET_NAME.search(name) and not _LOGIN_IN_ADDRESS.search(value)


def _inside(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)
