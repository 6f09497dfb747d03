"""``python -m agent_sdk.cli``: the program ``zpi`` without its script."""

from agent_sdk.cli.main import run

if __name__ == "__main__":
    run()
