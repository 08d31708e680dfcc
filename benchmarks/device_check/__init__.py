"""The parts of benchmarks/gpu_check.py. Standard library alone; torch lives in the peers' process."""
