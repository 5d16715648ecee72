"""Other systems that benchmarks compare with ours: started, put under load and ended here."""
