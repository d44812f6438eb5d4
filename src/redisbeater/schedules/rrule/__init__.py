"""Recurrence rules of RFC 5545: their values, text and occurrences."""
