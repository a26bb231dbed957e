"""A cluster on this machine, with data: for a first look, for tests and for measurements."""
