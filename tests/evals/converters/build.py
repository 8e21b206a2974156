"""Files for converters."""

from pathlib import Path

from evals.converters import Files


def files(**contents: bytes | str) -> Files:
    """Files by name, where a double underscore stands for a dot, below /data."""
    return Files(
        folder=Path("/data"),
        contents={
            name.replace("__", "."): text.encode() if isinstance(text, str) else text
            for name, text in contents.items()
        },
    )
