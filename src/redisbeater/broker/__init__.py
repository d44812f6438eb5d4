"""The broker: beat's connection to it, publish batches and publisher confirms."""
