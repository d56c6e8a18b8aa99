"""What clients drop."""
