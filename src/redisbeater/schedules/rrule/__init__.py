"""Recurrence rules of RFC 5545: values, text, and occurrences."""
