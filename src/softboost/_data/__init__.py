"""From what the user passes to checked, standardised arrays."""
