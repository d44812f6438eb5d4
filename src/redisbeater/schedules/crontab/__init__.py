"""Crontab: fields, the five-field text, and fire times that are exact across DST."""
