"""``python -m agent_sdk.cli`` is the program ``zpi``."""

from agent_sdk.cli.main import run

run()
