"""`python -m jobs` is `liftlock`."""

from jobs.entry import main

if __name__ == "__main__":
    main()
