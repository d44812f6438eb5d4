"""Create, change, list and delete the entries of a schedule."""
