"""The log's replicas: which sites keep the log, which of them are a quorum, how the set changes, what is lost with a
replica that is given up, and how a storage that was put back is recognized."""
