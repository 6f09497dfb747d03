"""The program ``zpi``.

Exit codes: 0 done; 1 the run failed; 2 it could not start (bad words,
settings, model, folder or session); 3 done, but calls were refused for want
of permission; 4 stopped by ``--max-turns``; 130 or 143 stopped by a signal.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import agent_sdk
from agent_sdk.cli.args import parse_args
from agent_sdk.cli.i18n import load_translator
from agent_sdk.cli.streams import (
    Out,
    OutputLost,
    flush_printed,
    settle_streams,
    standard_streams,
)
from agent_sdk.core.errors import StorageError, ZpiError

STARTED_IN_VAIN = 2


def run() -> NoReturn:
    """Entry point of the program ``zpi``."""
    settle_streams()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a traceback is no answer to Ctrl-C
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
        _complain(err, tr.error(error.code, str(error)))
        return STARTED_IN_VAIN
    except OutputLost as error:
        if not error.gone:
            _complain(err, tr.error(StorageError.code, str(error)))
        return 1
    except SystemExit:  # --help or --version: all is said
        flush_printed()
        raise


def _complain(err: Out, line: str) -> None:
    err.write(f"{line}\n".encode("utf-8", "replace"))
