"""The paper's section 7 from the recipes: what runs, what came of it, and what that
says about each claim.
"""
