"""The pages: actions and their handlers."""
