"""A site's part in the replicated log. What the log is and promises is in `reconvene.corel`.

interface      what clients, HTTP and an embedding program see of the log: `LogPort`, and the batches that it returns
service        the implementation, driven by the engine's turns: `LogService`
feed           notifies subscribers of changes
receipts       appends that wait until they are durable, ordered or rejected
places         where the messages of an author are, for those who wait for a place
headings       reads batches without their bodies
transactions   what may be appended as part of a transaction, and the messages that a commit names
start          makes or loads the replica when a site starts
status         the log's part of a site's status
files          the log in a site's directory while the site is stopped: check, back up, restore, export
"""
