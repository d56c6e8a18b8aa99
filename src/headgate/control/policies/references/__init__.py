"""What policies are held against: the paper's baselines, its released scripts, and who knows all prices."""
