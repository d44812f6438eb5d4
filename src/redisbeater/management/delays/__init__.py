"""Delays, for programs and people: kept, found, moved, sent, cancelled."""
