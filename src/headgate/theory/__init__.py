"""The mathematics of the paper as functions of numpy arrays.
`studies/paper/equations.md` maps its labels to them.
"""
