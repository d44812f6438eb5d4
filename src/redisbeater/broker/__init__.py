"""OUT to the broker: connection, publish batches and confirms. Knows no entry."""
