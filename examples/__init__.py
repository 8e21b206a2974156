"""Runnable examples; nothing in the product imports from here."""
