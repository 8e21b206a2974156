"""Tests of serving.slo."""
