"""Parts for frameworks; each needs that framework and imports it."""
