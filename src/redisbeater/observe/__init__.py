"""Observe: what a beat shows of itself to probes and monitors: health, metrics, signs of life."""
