"""A site's whole core as one object: what a shell drives, and what it performs."""
