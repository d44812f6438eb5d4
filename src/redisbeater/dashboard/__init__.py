"""The web page: see the schedule, change it, and know what will run."""
