"""``python -m answer_checks`` prints the progress."""

from answer_checks.checking import main

main()
