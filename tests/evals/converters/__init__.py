"""Converters over tiny files written by hand."""
