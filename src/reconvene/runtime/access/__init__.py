"""Who may use a site, and in which role.

key_files   reads and writes files of cluster keys and client keys
certificates when certificates end
tls         TLS contexts from a configuration's certificates
auth        roles, and a client's handshake with its site: `Role`, `Endpoint`, `Admission`
listener    listening TCP sockets with limits on connections, in all and per host: `Listener`
"""
