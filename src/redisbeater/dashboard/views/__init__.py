"""The pages, each an action with what answers it."""
