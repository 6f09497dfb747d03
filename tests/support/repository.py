"""Where the repository lies and which files are in it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "agent_sdk"
PACKAGES = (PACKAGE, ROOT / "desktop")


def modules(*folders: Path) -> list[Path]:
    """Return the Python files under folders, in order; under the packages, if none is named."""
    found = (path for folder in folders or PACKAGES for path in folder.rglob("*.py"))
    return sorted(path for path in found if "__pycache__" not in path.parts)


def module_name(path: Path) -> str:
    """Return the import name of a file of the repository."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def committed_files() -> list[Path]:
    """Return the files that git tracks, without those deleted in the work tree."""
    # A clone that belongs to another user is one that we read only.
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    paths = (ROOT / name.decode() for name in listed.split(b"\0") if name)
    return [path for path in paths if path.is_file()]
