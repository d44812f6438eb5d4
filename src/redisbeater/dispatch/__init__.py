"""From a claim to the broker: plan, publish, confirm, commit."""
