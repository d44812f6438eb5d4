"""What a beat does beside dispatching: lead, survive outages, repair the schedule, store static entries."""
