"""Process groups in the manner of ISIS: CBCAST, ABCAST and GBCAST over site-to-site channels, site views beneath."""
