"""Studies of the library: `python -m benchmarks NAME` measures one and writes its pages."""
