"""Followers: they keep the log's green prefix at the same positions, pulled from a replica or from another follower,
and vote nowhere.

messages   what a follower asks a source, and what it is answered
source     answers, from what a replica or a follower has
follower   the storage of a follower: a replica's, of which only the green part is used
pulling    which source is asked, for what, and when: no connection is made here
"""
