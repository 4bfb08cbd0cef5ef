"""``%%why_slow`` above a cell that trains, or ``%why_slow train()`` before a call."""

import argparse
from typing import Any


def load(shell: Any) -> None:
    """Register the magic."""
    shell.register_magic_function(lambda line, cell=None: magic(shell, line, cell), 'line_cell', 'why_slow')


def magic(shell: Any, line: str, cell: str | None) -> None:
    """Run the cell, or the rest of the line, under watch, and print the report."""
    from why_slow.command import Run

    try:
        seconds, what_ifs, statement = _options(line)
    except ValueError as error:
        print(error)
        return
    code = cell if cell is not None else statement
    if not code.strip():
        print('%why_slow needs a statement, and %%why_slow a cell below it.')
        return
    run = Run(
        argparse.Namespace(
            seconds=seconds,
            no_what_ifs=not what_ifs,
            html=None,
            json=None,
            script=['the cell'],
            is_module=False,
        )
    )
    code = shell.transform_cell(code)
    name = shell.compile.cache(code, shell.execution_count)
    run.run(lambda: exec(compile(code, name, 'exec'), shell.user_ns))


def _options(line: str) -> tuple[float, bool, str]:
    """``--seconds`` and ``--no-what-ifs`` at the beginning of the line, and what follows.

    Raises:
        ValueError: for another option, or seconds that are none.
    """
    seconds, what_ifs = 60.0, True
    words = line.strip()
    while words.startswith('--'):
        word, _, rest = words.partition(' ')
        if word == '--no-what-ifs':
            what_ifs, words = False, rest.strip()
        elif word == '--seconds':
            number, _, rest = rest.strip().partition(' ')
            seconds, words = _seconds(number), rest.strip()
        else:
            raise ValueError(f'%why_slow knows --seconds and --no-what-ifs, not {word}.')
    return seconds, what_ifs, words


def _seconds(number: str) -> float:
    try:
        seconds = float(number)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f'%why_slow --seconds needs a number above 0 after it, not {number!r}.')
    return seconds
