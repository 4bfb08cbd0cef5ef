"""From Python to the browser: a model as a JavaScript function."""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable
from typing import Any

OPERATORS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/', ast.Pow: '**', ast.Lt: '<',
             ast.LtE: '<=', ast.Gt: '>', ast.GtE: '>=', ast.Eq: '===', ast.NotEq: '!==', ast.And: '&&',
             ast.Or: '||'}
FUNCTIONS = {'min', 'max', 'floor', 'ceil', 'sqrt', 'log2'}
OURS = {'erlang_c': 'liveFiguresErlang'}        # with the names that they have in live.js


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
