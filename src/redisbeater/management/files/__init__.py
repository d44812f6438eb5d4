"""Files of entries: read and write them, plan the changes that they make, and apply these."""
