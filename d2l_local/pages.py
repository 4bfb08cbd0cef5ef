"""What ``figures/draw.py`` of several topics share: an empty canvas, and tables of a page.

A page may have a calculator, which runs in the browser, and tables that a script computes.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt


def canvas(width: float, height: float) -> Any:
    """Axes without a frame. A unit is 0.82 inches: so narrow a figure stays legible on a phone."""
    _, ax = plt.subplots(figsize=(0.82 * width, 0.82 * height))
    ax.set(xlim=(0, width), ylim=(0, height), position=(0, 0, 1, 1))
    ax.axis('off')
    return ax


def number(x: float) -> str:
    """About three digits, as ``calculator.js`` prints them."""
    return f'{x:.0f}' if x >= 100 else f'{x:.1f}' if x >= 10 else f'{x:.2f}'


def calculator(page: str) -> dict:
    """What a page tells ``calculator.js``."""
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)[1])


def inputs(config: dict) -> dict[str, float]:
    """The calculator's inputs as it starts, in units without prefixes."""
    return {i['name']: i['value'] * i.get('scale', 1) for i in config['inputs']}


def first_table(page: str, model: Callable[..., dict[str, float]]) -> str:
    """The table with which the calculator starts, for readers without JavaScript.

    Args:
        model: computes a row, from the number of devices and the inputs.
    """
    config = calculator(page)
    values, rows, k = inputs(config), [], 1
    while k <= values['most']:
        row = model(k, **values)
        rows.append([str(k), *(number(row[c['value']] / c.get('scale', 1)) for c in config['columns'])])
        k *= 2
    titles = [f"{config['over']['label']} (cost model)",
              *(c['label'] + (f", {c['unit']}" if c.get('unit') else '') for c in config['columns'])]
    return '\n'.join('| ' + ' | '.join(r) + ' |' for r in [titles, ['---:'] * len(titles), *rows])


def with_tables(page: str, tables: dict[str, Callable[[str], str]]) -> str:
    """The page with its tables computed anew, each between the two comments that name it."""
    for name, table in tables.items():
        head, _, rest = re.split(rf'(?<=<!-- {name}: computed by figures/draw.py; a test compares -->)'
                                 rf'(.*?)(?=<!-- end {name} -->)', page, flags=re.S)
        page = f'{head}\n\n{table(page)}\n\n{rest}'
    return page
