"""One conversation: transcript, cards and composer."""
