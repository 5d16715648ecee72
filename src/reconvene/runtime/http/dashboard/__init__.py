"""The dashboard: a live page of the cluster, with partition and heal if fault injection is allowed."""
