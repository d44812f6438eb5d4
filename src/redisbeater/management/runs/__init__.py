"""Runs as programs and people manage them: history, stop, restart, backfill, and what runs are sent from here."""
