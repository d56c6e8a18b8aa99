"""An ordinary Flower app for PyTorch, before and after headgate came in."""
