"""The parts of compare.py: options, plan, jobs, schedule, results, summary."""
