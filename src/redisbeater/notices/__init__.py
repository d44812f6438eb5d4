"""Telling people of incidents: a process of its own sends messages, whatever becomes of it."""
