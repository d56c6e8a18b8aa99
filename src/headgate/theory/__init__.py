"""The paper's mathematics: numpy in, numpy out, no state. `docs/understand/equations.md` maps its labels to these functions."""
