"""What is asked of a schedule as a whole: its status, whether it is healthy, its server and its last hour."""
