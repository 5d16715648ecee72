"""What never runs inside a site: benchmarks, the demo, the soak, campaigns, generated traces, ideal protocols.

Only three commands import it (`reconvene bench`, `demo` and `campaign`), besides `python -m` and the tests.
"""
