"""The second shell around the core: virtual time, a simulated network and a simulated disk, all from one seed."""
