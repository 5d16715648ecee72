"""Clusters of real sites on this machine, for `reconvene up` and related commands, tests and benchmarks."""

from reconvene.local.cluster import LocalCluster, SiteState
from reconvene.local.domains import LocalDomains
from reconvene.local.layout import Layout, site_names
from reconvene.local.steady import steady

__all__ = ["Layout", "LocalCluster", "LocalDomains", "SiteState", "site_names", "steady"]
