"""One change of one entry: computed from what is stored, written only if that is unchanged."""
