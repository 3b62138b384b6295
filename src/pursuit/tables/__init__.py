"""Which rows a command means: tables in files of any kind, here or on other machines, whole or larger than memory.

Nothing else opens a user's file. `source` has the one answer, a `TableSource`; `csv` and `arrow` read, `filesystem`
finds, `splitting` holds out by a seed, `survey` finds labels and values, `streaming` trains from files, and `writing`
writes.
"""
