"""The specifications of extended virtual synchrony (the paper's section 2), one file for each heading of it."""
