"""A figure as HTML: in a page, as a page of its own, and in the output of a notebook's cell."""

import html
import json
from collections.abc import Callable
from pathlib import Path

from live_figures.describe import UNITS, Figure
from live_figures.measured import Measurements, Start, start
from live_figures.numbers import SCALES, show, shown, with_unit
from live_figures.translate import formulas, javascript
from tested_results.numbers import TIMES

SCRIPT = Path(__file__).with_name('live.js')
STYLE = Path(__file__).with_name('live.css')
# A page of its own is light or dark as JupyterLab is where it stands in a frame there, and tells the
# frame how high it is.
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>{style} body {{ margin: 0; font: 1rem/1.5 sans-serif; }}
html[data-theme="dark"] {{ color: #ddd; --pst-color-background: #111; }}</style>
<script>try {{
  if (parent !== window) document.documentElement.dataset.theme =
    parent.document.body.dataset.jpThemeLight === 'false' ? 'dark' : 'light';
}} catch {{ /* a page of another site does not tell */ }}
{script}</script>
<body>{figure}<script>if (frameElement) new ResizeObserver(() => {{
  frameElement.style.height = `${{document.body.scrollHeight + 40}}px`;
}}).observe(document.body);</script>"""


def table(figure: Figure) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table with which the figure starts."""
    values = figure.starts()
    if not figure.over:
        v = figure.run(values)
        return ['model', 'value'], [[o.label, show(v[o.name], o.unit)] for o in figure.outputs]
    over = next(i for i in figure.inputs if i.name == figure.over)
    unit = f', {over.unit}' if over.unit else ''
    head = [f'{over.label}{unit} (model)', *(o.label for o in figure.outputs)]
    rows = []
    for x in figure.rows:
        v = figure.run({**values, over.name: x * over.factor})
        rows.append([shown(v[over.name], over), *(show(v[o.name], o.unit) for o in figure.outputs)])
    return head, rows


def _measured_on(pages: set[str]) -> str:
    return f'≈ measured: {html.escape(", ".join(sorted(pages)))}.'


def note(begin: Start, origin: Callable[[set[str]], str] = _measured_on) -> str:
    """Where the start comes from, as HTML.

    Args:
        origin: a sentence, as HTML, about the pages that have measured something.
    """
    sentences = []
    if not begin.names and not begin.points:
        sentences.append('It starts from an example.')
    if begin.pages:
        sentences.append(origin(begin.pages))
    if begin.absent:
        sentences.append(f'Not measured: {html.escape("; ".join(begin.absent))}.')
    return ' '.join(sentences)


def _used(begin: Start) -> str:
    """The inputs with which the table was made, as items of a list in HTML."""
    items = []
    for i in begin.figure.inputs:
        if i.name == begin.figure.over:
            continue
        value = with_unit(shown(i.start * i.factor, i), i.unit)
        how = ' (≈ measured)' if i.name in begin.names else ''
        items.append(f'<li>{html.escape(i.label)}: {value}{how}</li>')
    return ''.join(items)


def _table(figure: Figure) -> str:
    head, rows = table(figure)
    top = ''.join(f'<th scope="col">{html.escape(h)}</th>' for h in head)
    body = ''
    for first, *rest in rows:
        cells = ''.join(f'<td>{html.escape(c)}</td>' for c in rest)
        body += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    return f'<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _data(name: str, begin: Start, call: str) -> dict:
    """What ``live.js`` gets besides the model."""
    figure = begin.figure
    inputs = [{'name': i.name, 'label': i.label, 'unit': i.unit, 'factor': i.factor,
               'low': i.low, 'high': i.high, 'start': i.start, 'log': i.log, 'whole': i.whole,
               'choices': i.choices, 'measured': i.name in begin.names, 'scales': SCALES.get(i.unit),
               'more': i.more, 'play': i.play}
              for i in figure.inputs]
    outputs = [{'name': o.name, 'label': o.label, 'unit': o.unit, 'factor': UNITS.get(o.unit, 1),
                'scales': SCALES.get(o.unit)} for o in figure.outputs]
    return {'name': name, 'title': figure.title, 'over': figure.over, 'rows': figure.rows,
            'say': figure.say, 'drawn': figure.drawn or [o.name for o in figure.outputs],
            'log': figure.log_y, 'ideal': figure.ideal, 'lanes': figure.lanes, 'count': figure.count,
            'kinds': figure.kinds, 'clock': figure.clock, 'points': begin.points,
            'presets': figure.presets, 'code': formulas(figure.model), 'call': call,
            'inputs': inputs, 'outputs': outputs, 'times': TIMES}


def render(name: str, described: Figure, found: Measurements | None = None,
           origin: Callable[[set[str]], str] = _measured_on, call: str = '') -> str:
    """A figure as HTML: its title, its table, its data and its model for ``live.js``.

    A page with figures needs :data:`SCRIPT` and :data:`STYLE` as well. Without JavaScript it shows the table.

    Args:
        name: ends the ``id`` of the figure, ``live-NAME``.
        found: measured numbers from which it starts; without them it starts from its example.
        origin: a sentence, as HTML, about the pages that have measured something.
        call: Python that shows the figure in a notebook, which stands below the formulas.

    Raises:
        ValueError: the model cannot be translated; names what cannot.
    """
    begin = start(described, found or Measurements())
    # Within a script, `</` would end it.
    data = json.dumps(_data(name, begin, call), ensure_ascii=False).replace('</', '<\\/')
    model = javascript(described.model).replace('</', '< /')
    return (f'<div class="live-figure" id="live-{name}">'
            f'<p class="live-figure-title">{html.escape(described.title)}</p>'
            f'<div class="live-figure-table">{_table(begin.figure)}</div>'
            f'<ul class="live-figure-used">{_used(begin)}</ul>'
            f'<p class="live-figure-note">{note(begin, origin)}</p></div>\n'
            f'<script>(window.liveFigures = window.liveFigures || []).push({{...{data}, '
            f'model: {model}}});</script>')


def document(title: str, figure: str) -> str:
    """A page of its own, which needs no other file, for what :func:`render` gives."""
    return PAGE.format(title=html.escape(title), figure=figure, style=STYLE.read_text(),
                       script=SCRIPT.read_text())


def frame(title: str, figure: str) -> str:
    """The same as HTML for the output of a notebook's cell: a frame, as high as the figure."""
    return (f'<div><iframe title="{html.escape(title)}" srcdoc="{html.escape(document(title, figure))}" '
            'style="width: 100%; border: 0"></iframe></div>')
