"""Descriptions of schedules in English, for people."""
