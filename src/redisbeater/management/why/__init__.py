"""Why an entry did or did not run: answered from what is stored, and from nothing else."""
