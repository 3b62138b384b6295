"""The files of the tasks: found on the machine or fetched, checked, and read."""

from pursuit.tasks.files.download import DownloadFailed, OnProgress
from pursuit.tasks.files.find import DataFile, Found, MissingData, cache_folder, damage, find, folders, get, locate
from pursuit.tasks.files.readers import (
    content_of,
    read_cifar_binary,
    read_cifar_python,
    read_idx,
    read_json,
    read_jsonl,
    read_npz,
)

__all__ = [
    "DataFile",
    "DownloadFailed",
    "Found",
    "MissingData",
    "OnProgress",
    "cache_folder",
    "content_of",
    "damage",
    "find",
    "folders",
    "get",
    "locate",
    "read_cifar_binary",
    "read_cifar_python",
    "read_idx",
    "read_json",
    "read_jsonl",
    "read_npz",
]
