"""One site as a process: the shell around the protocol core that has sockets, files, threads and a clock.

Bottom up: each imports only from those named before it. `tests/test_layers.py` holds the exact table.

config        the configuration of a site: its keys, its file, whether it makes sense
diagnostics   the site's own log lines; how late its event loop runs
access        key files, TLS, roles, the handshake of a client; how many connections a host may have
outside.py    what a site needs from outside: a transport for datagrams, a disk
disk          the real disk: the thread that writes, LMDB, the site's directory
net           the real transport: UDP, seals, frame sizes; which sites there are, and where
log           the site's part in the replicated log: appends, reads, changes of replicas
site          the engine: inputs go into turns, effects of a turn are carried out; the trace
clients       Unix and TCP sockets at which other programs use the site
http          health, metrics, status; the dashboard
node          all of it as one process: start, signals, end; checks before a start

`log` is always the replicated log. The lines that a program writes for its operators are `diagnostics`.
"""
