"""Messages of the public SDK, folded from the loop's events."""
