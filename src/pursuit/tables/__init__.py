"""Which rows a command means: tables in files of any kind, here or on other machines, whole or larger than memory.

Nothing else opens a user's file. `source` has the one answer, a `TableSource`; `csv` and `arrow` read, `filesystem`
finds, `splitting` holds out by a seed, `survey` finds labels and values, and `streaming` trains from files. An `engine`
does `work` share by share, and `writing` writes.
"""
