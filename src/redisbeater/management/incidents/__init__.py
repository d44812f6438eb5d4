"""What did not do what it promises, from when to when."""
