"""The promotion flow: register, quantize, evaluate, roll out, record."""
