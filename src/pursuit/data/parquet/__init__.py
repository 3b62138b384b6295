"""Rows larger than memory: streamed from Parquet or Arrow files, shuffled in a buffer, sharded over processes.

One file a step: `arrow_files` finds and reads them, `survey` looks at all rows once for classes and choices, `choosing`
says which rows are held out or belong to which process, `streaming` shuffles, `source` puts it together.
"""

from pursuit.data.parquet.source import ParquetRows

__all__ = ["ParquetRows"]
