"""Process groups in the manner of ISIS at a running site.

interface   what clients see of it: `SiteIsis`, `IsisHandle`, `IsisReceiver`
service     requests of processes go into the layer, events of a turn go to the processes: `IsisService`
"""
