"""Virtual synchrony (sections 4 and 5 of the extended virtual synchrony paper), for the events of the filter.

Complete: C1 to C3, once a history has been extended by what a process that stopped could not record any more. Legal:
L1 to L5, whether one logical time fits all that happened.
"""
