"""The command line, `zpi`."""
