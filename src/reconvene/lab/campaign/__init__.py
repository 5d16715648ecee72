"""Many seeds, each simulated and verified: how the protocol is shown to be right."""
