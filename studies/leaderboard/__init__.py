"""The leaderboard: every policy of every comparison at equal spend, ranked within the limits, and one's own beside them."""
