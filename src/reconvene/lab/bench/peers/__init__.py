"""Other systems that benchmarks run beside ours, each started, loaded and ended by us."""
