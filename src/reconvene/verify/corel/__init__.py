"""COReL's service guarantees (section 4: properties 3.1, 3.2, 3.6, 3.7, 3.8), its invariants (section 5.4),
the phases of its primary components (section 5.5.1) and its timestamps (section 5.2)."""
