"""The run folder: whoever runs writes it, whoever draws reads it."""
