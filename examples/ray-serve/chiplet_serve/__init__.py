"""Vector search on several machines: Ray Serve over chiplet. See README.md."""
