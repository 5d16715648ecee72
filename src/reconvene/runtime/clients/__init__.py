"""Programs that use the site over a Unix or TCP socket. The messages are in `reconvene.wire.clients`.

server           listens; reads keys again on request: `ClientServer`
server_state     what its connections share; limits on their number
connection       one client: handshake, requests, the end
group_requests   a client's requests to groups, and what is delivered to it
log_requests     a client's requests to the log, also those of a program with a site inside
log_appends      its appends: taken in order, answered when they are durable
snapshot_uploads snapshots that it saves, piece by piece
answers          how requests are answered, over a socket or within a program
intake           reads a client's requests, a bounded share of them at a time
output           answers and events to a client, one write for each turn, bounded

Only `node`, the simulated cluster of `reconvene.testing` and `client.local_channel`, for a site inside a program,
import from here.
"""
