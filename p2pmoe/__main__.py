"""`python -m p2pmoe`: the same command line as the installed `p2pmoe` script."""

from p2pmoe.cli.main import main

if __name__ == "__main__":
    main()
