"""Scripts that print the figures quoted in README and docs; each ends with one RESULT line."""
