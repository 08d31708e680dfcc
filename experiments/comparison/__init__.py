"""What compare.py is made of: options, plan, jobs, schedule, results, summary."""
