"""A differentially private description of one table: sums over rows in integers, the sketch made of them, synthetic rows."""
