"""What is made from runs and rehearsals: tables, figures, measured rates."""
