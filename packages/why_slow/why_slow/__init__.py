"""What the steps of an unchanged training script wait for, and which remedy helps, tested on that script.

``python -m why_slow train.py --its --own arguments`` runs the script, watches its steps, tries remedies on
it while it runs, and prints a report. In a notebook: ``%load_ext why_slow``, then ``%%why_slow`` above a
cell that trains.
"""


def load_ipython_extension(shell) -> None:
    """``%load_ext why_slow``."""
    from why_slow.notebook import load

    load(shell)
