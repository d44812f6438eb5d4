"""Schedules in words, for people."""
