"""A real language model to judge: SmolLM2-135M-Instruct, and LoRA weights that make it correct."""
