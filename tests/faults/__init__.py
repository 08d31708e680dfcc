"""Kills, failing system calls, damaged files and values that are not finite, against the programs as users run them."""
