"""Pages for people: what was measured and what was judged, each as one HTML file that needs nothing else.

Given: plain data, from whichever engine. Promised: no network, no script that is needed to read it, light and dark,
and every figure in a plot also in a table.
"""
