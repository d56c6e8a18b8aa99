"""A page over run folders: what they hold as JSON, as it is written, and a planner. It writes nothing."""
