"""Datagrams to and from the other sites.

udp             `runtime.outside.Transport` over UDP, sealed: `Udp`
seal_sessions   which boots of which sites are accepted: challenges and replies
path            addresses, sockets, buffers, the largest frame that a path carries
trains          datagrams longer than a packet, sent as several: `Trains`
train_length    how long they may be, by the loss
refusals        counts and logs dropped datagrams
memory          keeps the C library from returning freed frames to the system
site_numbers    number and address of each site, from the file and from storage: `Numbers`
list_watch      logs and reports changes of the list of sites
partition       a partition made on purpose, and the file that keeps it: `Partition`
"""
