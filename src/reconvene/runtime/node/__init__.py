"""A site as a process of its own: what `reconvene node` runs, and what `reconvene.open` runs inside a program.

main        puts all parts together; signals; the end: `run_site`, `running`
preflight   checks keys, certificates and directories before anything starts
real_time   the real-time class, where it is configured
explain     what follows from a configuration on this machine: `reconvene node --check`
replacing   a site that lost its storage starts anew under its old name: `reconvene replace`
"""
