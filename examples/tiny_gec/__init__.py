"""A grammar corrector small enough to train on a laptop, and the text it is trained and judged on.

Text comes from a rule grammar of our own, so every error is labelled, every correction is exact
and nothing needs a license but this repository's.
"""
