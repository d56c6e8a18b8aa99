"""A Flower app made by headgate."""
