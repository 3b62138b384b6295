import sys

from benchmarks.runner import main

main(sys.argv[1:])
