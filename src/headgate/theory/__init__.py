"""The paper's mathematics: numpy in, numpy out, no state. `studies/paper/equations.md` maps its labels to these functions."""
