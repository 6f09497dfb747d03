"""``zpi-desktop``: the window. It starts the host process behind it."""

import sys
from typing import NoReturn


def run() -> NoReturn:
    """Entry point of the program ``zpi-desktop``."""
    from desktop.app import main  # noqa: PLC0415 - the host's processes pass by here too

    sys.exit(main())


if __name__ == "__main__":
    run()
