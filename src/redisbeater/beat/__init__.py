"""What beat does apart from dispatching: lead, survive outages, repair the schedule, store static entries."""
