"""The program ``zpi``.

Exit codes: 0 done; 1 the run failed; 2 it could not start (bad words,
settings, model, folder or session); 3 done, but calls were refused for want
of permission; 4 stopped by ``--max-turns``; 130 or 143 stopped by a signal.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import agent_sdk
from agent_sdk.cli.args import parse_args
from agent_sdk.cli.i18n import Translator, load_translator
from agent_sdk.cli.output import Out, standard_streams
from agent_sdk.core.errors import ZpiError

STARTED_IN_VAIN = 2


def run() -> NoReturn:
    """Entry point of the program ``zpi``."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Do what the command line says.

    Args:
        argv: The words after the program's name.

    Returns:
        The exit code; see the module.
    """
    tr = load_translator(os.environ)
    out, err = standard_streams()
    try:
        args = parse_args(argv, tr=tr, version=agent_sdk.__version__)
        # Loaded here so that --version, --help and wrong words cost nothing.
        from agent_sdk.cli.program import Program  # noqa: PLC0415 - start-up cost

        return asyncio.run(Program(args, tr=tr, out=out, err=err).run())
    except ZpiError as error:
        _complain(err, tr, error)
        return STARTED_IN_VAIN
    except BrokenPipeError:
        # Whoever read standard output has gone; there is nobody to tell.
        return 1


def _complain(err: Out, tr: Translator, error: ZpiError) -> None:
    with suppress(OSError):
        err.write((tr.error(error.code, str(error)) + "\n").encode("utf-8", "replace"))
