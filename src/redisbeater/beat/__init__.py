"""What beat does besides dispatching: lead, survive outages, repair the schedule, store static entries."""
