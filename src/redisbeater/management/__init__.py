"""What programs and people do with a schedule: create, change, list and delete entries."""
