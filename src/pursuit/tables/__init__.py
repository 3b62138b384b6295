"""Which rows a command means: tables in files of any kind, here or on other machines, whole or larger than memory.

Nothing else opens a user's file. `source` has the one answer, a `TableSource`; `csv`, `converted` and `arrow` read,
`filesystem` finds, `splitting` holds out by a seed, `labels` finds labels, and `streaming` trains from files. An
`engine` does `row_jobs` share by share, which also write.
"""
