"""A site's part in the replicated log. What the log is and promises is in `reconvene.corel`.

interface      what clients, HTTP and an embedding program see of the log: `SiteLog`
service        the implementation, driven by the engine's turns: `LogService`
feed           notifies subscribers of changes
reading        what the replica holds, as readers get it
durable        appends that wait until they are on stable storage
places         where messages are: one index for all authors, and those that wait for a place
finding        looks for a place that is not in the index
barriers       clients that wait for a barrier
administration changes of the replicas; the beginning of a log
transactions   what may be appended as part of a transaction, and the messages that a commit names
start          makes or loads the replica when a site starts
status         the log's part of a site's status
files          the log in a site's directory while the site is stopped: check, back up, restore, export
"""
