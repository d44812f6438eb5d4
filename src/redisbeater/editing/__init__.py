"""One change of one entry: computed from what is stored, written only if that has not changed in between."""
