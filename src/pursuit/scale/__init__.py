"""Many rows and many runs: the same work in this process or on a Ray cluster, share by share."""
