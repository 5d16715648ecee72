"""The dashboard: a site's live page, what it shows of this site and of the others, and its two faults."""
