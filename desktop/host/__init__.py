"""The host process: owns sessions, runs, the state database and credentials. No Qt."""
