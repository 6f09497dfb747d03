"""The agent loop and the ports through which its owner takes part."""
