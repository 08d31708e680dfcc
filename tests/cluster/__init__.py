"""Real launchers on hosts of this machine; see scripts/cluster_test.sh."""
