"""Real sites on this machine, broken for minutes or hours while clients use them; every trace is verified."""
