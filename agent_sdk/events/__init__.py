"""Session, message and part: the one projection that every front end renders."""
