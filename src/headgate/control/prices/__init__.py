"""Where prices come from."""
