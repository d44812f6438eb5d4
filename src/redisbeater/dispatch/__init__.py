"""Dispatch: publish the runs of a claim, wait until the broker has accepted them, and commit them."""
