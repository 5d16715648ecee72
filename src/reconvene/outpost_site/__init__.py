"""An outpost of the log as a process: `reconvene node` with `outpost = true` under [log]."""
