"""The studies behind the published numbers."""
