"""`python -m jobs` is `liftlock`."""

from jobs.cli import main

if __name__ == "__main__":
    main(prog_name="liftlock")
