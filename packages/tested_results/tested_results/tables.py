"""A table of what a cell has measured."""

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column names the row, the others differ by machine.

    In a notebook it is an HTML table. Its plain text marks what differs from machine to machine
    (``measured: …``), so that a check compares the names of the rows and nothing else.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        wide = max((len(r[0]) for r in self.rows), default=0)
        return '\n'.join(f'{r[0]:{wide}}  measured: ' + ' · '.join(c for c in r[1:] if c)
                         for r in self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = ''.join(f'<th>{html.escape(h)}</th>' if h else '<td></td>' for h in self.headings)
        body = ''.join('<tr><th scope="row">' + html.escape(r[0]) + '</th>'
                       + ''.join(f'<td>{html.escape(c)}</td>' for c in r[1:]) + '</tr>\n'
                       for r in self.rows)
        return (f'<div class="d2l-measured"><table class="table"><thead><tr>{head}</tr></thead>'
                f'<tbody>{body}</tbody></table></div>')
