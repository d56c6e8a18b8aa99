"""Where the paper's text cannot be taken literally: what it says, what is true, and the
numbers that show it.
"""
