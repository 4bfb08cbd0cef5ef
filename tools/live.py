"""Figures that a reader can turn: one description each, for the page, its script and its table.

``chapters/TOPIC/figures/live.py`` has ``LIVE``, a :class:`Figure` by each name. Where ``index.md`` says
``<!-- live: NAME -->``, the page gets the figure. Its model is a plain Python function of a few
formulas; the browser runs the same function, translated here (:func:`javascript`), in
``theme/live.js``. Without JavaScript the page shows the table. In JupyterLab (``make lab``), a cell
shows the same figure: ``from tools.live import turn; turn('roofline')``.
"""

import ast
import html
import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import nbformat
from IPython.display import HTML

from tools import figures, ledger, notebooks
from tools.notebooks import ROOT

MARK = re.compile(r'<!-- live: ([\w-]+) -->')
UNITS = {'ns': 1e-9, 'µs': 1e-6, 'ms': 1e-3, 's': 1, 'KB': 1e3, 'MB': 1e6, 'GB': 1e9,
         'KiB': 2 ** 10, 'MiB': 2 ** 20, 'GiB': 2 ** 30, 'GB/s': 1e9, 'Mbit/s': 1e6 / 8, 'GFLOP': 1e9,
         'GFLOP/s': 1e9, 'TFLOP/s': 1e12, 'million': 1e6, '%': 0.01}
# Least value, divisor, name.
TIMES = ((2 * 86400, 86400, 'days'), (7200, 3600, 'h'), (1, 1, 's'), (1e-3, 1e-3, 'ms'),
         (1e-6, 1e-6, 'µs'), (0, 1e-9, 'ns'))
SIZES = ((1e12, 1e12, 'TB'), (1e9, 1e9, 'GB'), (1e6, 1e6, 'MB'), (1e3, 1e3, 'KB'), (0, 1, 'bytes'))


# In a notebook the figure has a page of its own, as high as it is, light or dark as JupyterLab is.
FRAME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>{style} body {{ margin: 0; font: 1rem/1.5 sans-serif; }}
html[data-theme="dark"] {{ color: #ddd; --pst-color-background: #111; }}</style>
<script>document.documentElement.dataset.theme =
  parent.document.body.dataset.jpThemeLight === 'false' ? 'dark' : 'light'; {script}</script>
<body class="bd-article">{figure}<script>new ResizeObserver(() => {{
  frameElement.style.height = `${{document.body.scrollHeight + 40}}px`;
}}).observe(document.body);</script>"""


# What a description says.

@dataclass(frozen=True)
class Printed:
    """A figure that a notebook prints.

    Args:
        page: the notebook, from ``chapters/`` and without suffix.
        text: a regular expression, up to the figure; after it come number and unit.
    """

    page: str
    text: str


@dataclass(frozen=True)
class Claimed:
    """The measured figure of a claim."""

    id: str


@dataclass(frozen=True)
class Derived:
    """A figure that follows from measured ones."""

    function: Callable[..., float]
    sources: tuple[Printed | Claimed, ...]


Measured = Printed | Claimed | Derived


@dataclass(frozen=True)
class Input:
    """A slider, or with ``choices`` a list of (text, number).

    Args:
        unit: of ``low``, ``high`` and ``start``; the model gets units without prefixes.
        log: equal factors are equal ways of the slider.
        whole: no fractions.
        measured: where the start is found; ``start`` serves where it is not there.
    """

    name: str
    label: str
    unit: str = ''
    low: float = 0
    high: float = 1
    start: float = 0
    log: bool = True
    whole: bool = False
    choices: tuple[tuple[str, float], ...] = ()
    measured: Measured | None = None

    @property
    def factor(self) -> float:
        return UNITS.get(self.unit, 1)


@dataclass(frozen=True)
class Output:
    """What the model returns as ``name``. Seconds (``s``) and bytes (``B``) get a fitting prefix."""

    name: str
    label: str
    unit: str = ''


@dataclass(frozen=True)
class Point:
    """A measured point beside the curves, at ``x`` in the unit of the axis."""

    label: str
    x: float
    measured: Measured


@dataclass(frozen=True)
class Figure:
    """One figure: curves if ``over`` names an input, a timeline if there are ``lanes``, else bars.

    Args:
        model: from the inputs to a dictionary of outputs; with lanes, also from the round ``i``.
        say: sentences below the figure; ``{name}`` is a value. A dictionary says
            ``text`` if ``when`` is true, else ``none``; or it looks along the curve where ``max`` is
            largest, ``min`` least, or ``last`` not negative for the last time, and says ``end``
            where that is the end of the range, ``one`` at its start, ``none`` where it is nowhere.
        rows: values of ``over`` in the table.
        drawn: names of the outputs that are drawn; all if none is named.
        ideal: a diagonal beside the curve.
        lanes: lane, output of the start, output of the end; for rounds 0 … ``count`` - 1.
        presets: values of inputs, by the text of a button; one that was not measured has no button.
    """

    title: str
    model: Callable[..., dict[str, Any]]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    say: tuple[str | dict[str, str], ...]
    over: str = ''
    rows: tuple[float, ...] = ()
    drawn: tuple[str, ...] = ()
    log_y: bool = False
    ideal: bool = False
    lanes: tuple[tuple[str, str, str], ...] = ()
    count: str = ''
    points: tuple[Point, ...] = ()
    presets: dict[str, dict[str, float | Measured]] = field(default_factory=dict)

    def starts(self) -> dict[str, float]:
        """The inputs as the figure starts, without prefixes."""
        return {i.name: i.start * i.factor for i in self.inputs}

    def run(self, values: dict[str, float]) -> dict[str, Any]:
        """Inputs and outputs by name; with lanes, of the last round unless ``i`` names another."""
        if self.count:
            values = {'i': values[self.count] - 1, **values}
        return {**values, **self.model(**values)}


# Numbers as the page shows them; live.js has the twin.

def number(x: float) -> str:
    """About three digits."""
    if x == 0 or not math.isfinite(x):
        return '0' if x == 0 else '∞'
    a = abs(x)
    digits = 0 if x == math.floor(x) or a >= 99.95 else 1 if a >= 9.995 else 2 if a >= 0.9995 else \
        min(12, 2 - math.floor(math.log10(a)))
    return f'{x * (1 + 1e-12):,.{digits}f}'     # the middle is rounded up, here and in the browser


def with_unit(text: str, unit: str) -> str:
    return f'{text}{"" if unit in ("", "%", "×") else " "}{unit}'


def show(x: Any, unit: str) -> str:
    """A value with its unit; a text as it is."""
    if isinstance(x, str):
        return x
    if unit in ('s', 'B') and math.isfinite(x):
        scales = TIMES if unit == 's' else SIZES
        divisor, name = next((d, n) for least, d, n in scales if abs(x) >= least * (1 - 1e-9))
        return f'{number(x / divisor)} {name}' if x else f'0 {unit if unit == "s" else "bytes"}'
    return with_unit(number(x / UNITS.get(unit, 1)), unit)


def shown(x: float, one: Input) -> str:
    """The value of an input, as its label names it."""
    if one.choices:
        return next(text for text, n in one.choices if n == x)
    x /= one.factor
    return f'{x:,.0f}' if one.whole else number(x)


# From Python to the browser.

OPERATORS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/', ast.Pow: '**', ast.Lt: '<',
             ast.LtE: '<=', ast.Gt: '>', ast.GtE: '>=', ast.Eq: '===', ast.NotEq: '!==', ast.And: '&&',
             ast.Or: '||'}
FUNCTIONS = {'min', 'max', 'floor', 'ceil', 'sqrt', 'log2'}
OURS = {'erlang_c': 'd2lErlang'}        # with the names that they have in theme/live.js


def erlang_c(slots: int, load: float) -> float:
    """The share of requests that find all slots busy; Poisson arrivals, exponential service times.

    Args:
        slots: how many are served at the same time.
        load: the share of the slots that are busy on average, below 1.

    Source: the recursion of Erlang's loss formula; Cooper, *Introduction to Queueing Theory*, 3.3.
    """
    lost = 1.0
    for k in range(1, int(slots) + 1):
        lost = load * slots * lost / (k + load * slots * lost)
    return lost / (1 - load * (1 - lost))


def javascript(model: Callable[..., dict[str, Any]]) -> str:
    """A model as a JavaScript function of an object with its arguments.

    A model has assignments and one return of a dictionary, made of numbers, texts, its names,
    arithmetic, comparisons, ``a if b else c`` and the functions of :data:`FUNCTIONS` and
    :data:`OURS`. Anything else is refused.

    Raises:
        ValueError: names what cannot be translated.
    """
    def refuse(node: ast.AST) -> ValueError:
        return ValueError(f'the model {model.__name__} may not say {ast.unparse(node)!r}: '
                          'use arithmetic, comparisons, min, max, floor, ceil, sqrt, log2, erlang_c')

    def js(node: ast.AST) -> str:
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                return json.dumps(node.value, ensure_ascii=False)
            case ast.Name(id=name) if name in known:
                return name
            case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATORS:
                return f'({js(a)} {OPERATORS[type(op)]} {js(b)})'
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return f'(-{js(a)})'
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in OPERATORS:
                return f'({js(a)} {OPERATORS[type(op)]} {js(b)})'
            case ast.BoolOp(op=op, values=several):
                return '(' + f' {OPERATORS[type(op)]} '.join(map(js, several)) + ')'
            case ast.IfExp(test=test, body=a, orelse=b):
                return f'({js(test)} ? {js(a)} : {js(b)})'
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return f'Math.{name}({", ".join(map(js, args))})'
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in OURS:
                return f'{OURS[name]}({", ".join(map(js, args))})'
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return '{' + ', '.join(f'{js(k)}: {js(v)}' for k, v in pairs) + '}'
        raise refuse(node)

    function = tree(model)
    known = [a.arg for a in function.args.args]
    lines = [f'const {{{", ".join(known)}}} = v;']
    for node in function.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lines.append(f'const {node.targets[0].id} = {js(node.value)};')
            known.append(node.targets[0].id)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            lines.append(f'return {js(node.value)};')
        else:
            raise refuse(node)
    return '(v) => { ' + ' '.join(lines) + ' }'


def tree(model: Callable[..., Any]) -> ast.FunctionDef:
    """The function's syntax tree, without its docstring."""
    function = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(function, ast.FunctionDef)
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    return function


# What was measured.

# A number, with commas between thousands or none, and on the same line its unit. What a sentence puts
# behind them is no part of them; what is no single number, such as a range, is not found.
FOUND = (r'≈?\s*((?>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?))'
         r'(?![\d.,]*\d|\s*[–-]\s*\d)[^\S\n]*([^\s;,()]*)')


class Measurements:
    """What the notebooks of this run of the book have measured.

    Args:
        shown: the notebooks with their outputs, by page name.
        stored: names of pages that were not run here.
    """

    def __init__(self, shown: dict[str, nbformat.NotebookNode], stored: Iterable[str] = ()):
        self.stored = set(stored)
        self.text, self.claims, self.page, self.machine = {}, {}, {}, {}
        for page, nb in shown.items():
            outputs = [o for c in nb.cells for o in c.get('outputs', [])]
            self.text[page] = '\n'.join(o.get('text') or o.get('data', {}).get('text/plain', '')
                                        for o in outputs)
            for c in ledger.claims_of(nb):
                self.claims[c.id], self.page[c.id] = c, page
                self.machine.setdefault(page, c.machine)

    def find(self, what: Measured) -> tuple[float, str] | None:
        """The figure without prefix, and the page that has it; None where it is not there."""
        value, page = 0.0, ''
        if isinstance(what, Derived):
            hits = [self.find(source) for source in what.sources]
            with suppress(TypeError, ZeroDivisionError):        # one is None, or there is no such figure
                value, page = what.function(*(h[0] for h in hits)), hits[0][1]
        elif isinstance(what, Claimed):
            c, page = self.claims.get(what.id), self.page.get(what.id, '')
            scale = 1 if c is None or c.unit == '%' else UNITS.get(c.unit, 1)
            value = (c.value or 0.0) * scale if c else 0.0
        elif m := re.search(what.text + FOUND, self.text.get(page := f'chapters/{what.page}', '')):
            value = float(m[1].replace(',', '')) * UNITS.get(m[2].rstrip('.:!?'), 1)
        return (value, page) if 0 < value < math.inf else None


# The page.

class Start(NamedTuple):
    """A figure with what was measured.

    Args:
        figure: as it starts.
        points: measured ones, for the script.
        names: of the inputs that were measured.
        pages: that have what was measured.
        absent: labels of what should have been measured and was not.
    """

    figure: Figure
    points: list[dict]
    names: set[str]
    pages: set[str]
    absent: list[str]


def start(figure: Figure, found: Measurements) -> Start:
    """Put what was measured into a figure."""
    inputs, points, names, pages, absent = [], [], set(), set(), []
    for one in figure.inputs:
        if one.measured and (hit := found.find(one.measured)):
            value = hit[0] / one.factor
            value = max(1, round(value)) if one.whole else value
            one = replace(one, start=value, low=min(one.low, value), high=max(one.high, value))
            names.add(one.name)
            pages.add(hit[1])
        elif one.measured:
            absent.append(one.label)
        inputs.append(one)
    for p in figure.points:
        if hit := found.find(p.measured):
            points.append({'label': p.label, 'x': p.x, 'y': hit[0]})
            pages.add(hit[1])
        else:
            absent.append(p.label)
    factors, presets = {i.name: i.factor for i in inputs}, {}
    for text, values in figure.presets.items():
        hits = {n: found.find(x) for n, x in values.items() if not isinstance(x, int | float)}
        if None in hits.values():
            absent.append(text)
            continue
        set_to = {**values, **{n: hit[0] / factors[n] for n, hit in hits.items()}}
        presets['≈ ' * bool(hits) + text] = set_to
        pages |= {hit[1] for hit in hits.values()}
    figure = replace(figure, inputs=tuple(inputs), presets=presets)
    return Start(figure, points, names, pages, [a for a in absent if a])


def table(figure: Figure) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table with which the figure starts."""
    values = figure.starts()
    if not figure.over:
        v = figure.run(values)
        return ['model', 'value'], [[o.label, show(v[o.name], o.unit)] for o in figure.outputs]
    over = next(i for i in figure.inputs if i.name == figure.over)
    rows = [figure.run({**values, over.name: x * over.factor}) for x in figure.rows]
    first = f'{over.label}{over.unit and ", " + over.unit} (model)'
    return [first, *(o.label for o in figure.outputs)], [
        [shown(v[over.name], over), *(show(v[o.name], o.unit) for o in figure.outputs)] for v in rows]


def note(begin: Start, found: Measurements) -> str:
    """Where the start comes from, as HTML."""
    pages = sorted(begin.pages)
    said = [] if begin.names or begin.points else ['It starts from an example.']
    if pages:
        links = ', '.join(f'<a href="../../{p}.html">{p.rsplit("/")[-1]}</a>' for p in pages)
        machines = ' and '.join(dict.fromkeys(
            found.machine[p] for p in pages if p in found.machine))
        run = 'a stored run' if begin.pages & found.stored else 'this run'
        said.append(f'≈ measured in {run} of the book on {html.escape(machines)}: {links}.')
    if begin.absent:
        said.append(f'Not measured: {html.escape("; ".join(begin.absent))}.')
    return ' '.join(said)


def render(name: str, described: Figure, found: Measurements) -> str:
    """A figure as HTML: its title, its table, its data and its model for ``live.js``."""
    begin = start(described, found)
    figure = begin.figure
    head, rows = table(figure)
    function = tree(figure.model)
    data = {
        'name': name, 'title': figure.title, 'over': figure.over, 'rows': figure.rows, 'say': figure.say,
        'drawn': figure.drawn or [o.name for o in figure.outputs], 'log': figure.log_y,
        'ideal': figure.ideal,
        'lanes': figure.lanes, 'count': figure.count, 'points': begin.points, 'presets': figure.presets,
        'code': '\n'.join(ast.unparse(n) for n in function.body),
        'inputs': [{'name': i.name, 'label': i.label, 'unit': i.unit, 'factor': i.factor,
                    'low': i.low, 'high': i.high, 'start': i.start, 'log': i.log, 'whole': i.whole,
                    'choices': i.choices, 'measured': i.name in begin.names} for i in figure.inputs],
        'outputs': [{'name': o.name, 'label': o.label, 'unit': o.unit, 'factor': UNITS.get(o.unit, 1)}
                    for o in figure.outputs]}
    used = ''.join(f'<li>{html.escape(i.label)}: {with_unit(shown(i.start * i.factor, i), i.unit)}'
                   f'{" (≈ measured)" if i.name in begin.names else ""}</li>'
                   for i in figure.inputs if i.name != figure.over)
    cells = ''.join(f'<tr><th scope="row">{html.escape(r[0])}</th>' +
                    ''.join(f'<td>{html.escape(c)}</td>' for c in r[1:]) + '</tr>' for r in rows)
    top = ''.join(f'<th scope="col">{html.escape(h)}</th>' for h in head)
    script = json.dumps(data, ensure_ascii=False).replace('</', '<\\/')
    return (f'<div class="d2l-live" id="live-{name}">'
            f'<p class="d2l-live-title">{html.escape(figure.title)}</p>'
            f'<div class="d2l-live-table"><table><thead><tr>{top}</tr></thead>'
            f'<tbody>{cells}</tbody></table></div>'
            f'<ul class="d2l-live-used">{used}</ul>'
            f'<p class="d2l-live-note">{note(begin, found)}</p></div>\n'
            f'<script>(window.d2lLive = window.d2lLive || []).push({{...{script}, '
            f'model: {javascript(figure.model).replace("</", "< /")}}});</script>')


def insert(page: str, figures: dict[str, Figure], found: Measurements) -> str:
    """The page with its figures in the place of their marks.

    Raises:
        ValueError: a mark names no figure.
    """
    def put(m: re.Match) -> str:
        if m[1] not in figures:
            raise ValueError(f'the page asks for the live figure {m[1]!r}, and figures/live.py has '
                             f'{", ".join(figures)}')
        return render(m[1], figures[m[1]], found)
    return MARK.sub(put, page)


def turn(name: str) -> HTML:
    """A figure for the output of a cell, with the figures of the last run here, or the stored ones.

    Raises:
        ValueError: there is no such figure; says which there are.
    """
    topics = sorted(p.parts[-3] for p in figures.CHAPTERS.glob('*/figures/live.py'))
    known = {n: f for topic in topics for n, f in figures.load(topic, 'live').LIVE.items()}
    if name not in known:
        raise ValueError(f'there is no figure {name!r}; there are {", ".join(known)}')
    runs = {p.relative_to(ROOT).with_suffix('').as_posix(): notebooks.latest(p)
            for p in notebooks.notebooks()}
    found = Measurements({page: nb for page, (nb, _) in runs.items()},
                         [page for page, (_, here) in runs.items() if not here])
    figure = re.sub(r'<a href="[^"]*">(.*?)</a>', r'\1', render(name, known[name], found))
    theme = ROOT / 'tools' / 'theme'
    page = FRAME.format(title=html.escape(known[name].title), figure=figure,
                        style=(theme / 'd2l.css').read_text(), script=(theme / 'live.js').read_text())
    return HTML(f'<div><iframe title="{html.escape(known[name].title)}" srcdoc="{html.escape(page)}" '
                'style="width: 100%; border: 0"></iframe></div>')
