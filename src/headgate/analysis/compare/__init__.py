"""Policies at equal spend: what each learns for the money and memory it really takes, and which is best where."""
