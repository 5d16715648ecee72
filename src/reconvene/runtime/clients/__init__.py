"""Programs that use the site over a Unix or TCP socket. The messages are in `reconvene.wire.clients`.

server         listens, counts connections, reads keys again: `ClientServer`
connection     one client: handshake, requests, answers
intake         a client's requests, a bounded share of them at a time
output         answers and events to a client, one write for each turn, bounded
log_requests   a client's requests to the log

Only `node` and the simulated cluster of `reconvene.testing` import from here.
"""
