"""What a site writes and measures for its operators. It has nothing to do with the replicated log (`runtime.log`).

structured_logging   one line per event, with named fields, on standard `logging`: `configure`, `event`, `audit`
loop_lag             how late the event loop runs: `LoopLag`
histogram            how long something took, by size: `Histogram`
"""
