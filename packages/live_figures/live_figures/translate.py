"""From Python to the browser: a model as a JavaScript function."""

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

OPERATORS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/', ast.Mod: '%', ast.Pow: '**',
             ast.Lt: '<', ast.LtE: '<=', ast.Gt: '>', ast.GtE: '>=', ast.Eq: '===', ast.NotEq: '!==',
             ast.And: '&&', ast.Or: '||'}
FUNCTIONS = {'min', 'max', 'floor', 'ceil', 'sqrt', 'log2'}
OURS = {'erlang_c': 'liveFiguresErlang'}        # with the names that they have in live.js
# Words of JavaScript that are names in Python.
RESERVED = frozenset(
    'arguments case catch const debugger default delete do enum eval export extends function implements '
    'instanceof interface let new package private protected public static super switch this throw typeof '
    'var void'.split())


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


def tree(definition: Callable[..., Any]) -> ast.FunctionDef | ast.ClassDef:
    """The syntax tree of a function or class, without docstrings."""
    node = ast.parse(textwrap.dedent(inspect.getsource(definition))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part) is not None:
            part.body = part.body[1:]
    return node


def javascript(model: Callable[..., dict[str, Any]]) -> str:
    """A model as a JavaScript function of an object with its arguments.

    A model has assignments, ``if`` and one return of a dictionary at its end, made of numbers, texts, its
    names, arithmetic of numbers that are not negative where it has ``%`` or ``//``, comparisons,
    ``a if b else c`` and the functions of :data:`FUNCTIONS` and :data:`OURS`. It may call functions of its
    module, which follow the same rules, and make objects of a dataclass whose methods are properties. These
    functions may raise ``ValueError``, and who calls them may catch it. Anything else is refused.

    Raises:
        ValueError: names what cannot be translated.
    """
    function = tree(model)
    translator = Translator(model.__name__)
    if not function.body or not isinstance(function.body[-1], ast.Return) \
            or not isinstance(function.body[-1].value, ast.Dict):
        translator.refuse(function.body[-1])
    arguments = function.args
    names = [a.arg for a in arguments.args]
    if arguments.defaults or arguments.vararg or arguments.kwonlyargs or arguments.posonlyargs:
        translator.refuse(arguments)
    if arguments.kwarg:
        if names:
            translator.refuse(arguments)
        head, start, names = arguments.kwarg.arg, '', [arguments.kwarg.arg]
    else:       # no name of Python is called $
        head, start = '$', f'let {{{", ".join(names)}}} = $; '
    body = translator.body(function.body, Scope(set(names), model.__globals__))
    translated = f'({head}) => {{ {start}{body} }}'
    if not translator.helpers:
        return translated
    return f'(() => {{ {" ".join(translator.helpers.values())} return {translated}; }})()'


def formulas(model: Callable[..., Any]) -> str:
    """The model's source as readers see it: the functions and classes that it uses, then its own lines."""
    translator = Translator(model.__name__)
    function = tree(model)
    names = {a.arg for a in (*function.args.args, function.args.kwarg) if a}
    translator.body(function.body, Scope(names, model.__globals__))
    used = [ast.unparse(tree(definition)) for definition in translator.used.values()]
    return '\n\n'.join([*used, '\n'.join(ast.unparse(line) for line in function.body)])


@dataclass
class Scope:
    """Where a name is looked up.

    Args:
        known: names of arguments, and of variables that have a value so far.
        space: what else the function sees: its module.
        errors: names of caught errors.
    """

    known: set[str]
    space: dict[str, Any]
    errors: set[str] = field(default_factory=set)


class Translator:
    """Translates a model's lines, and the functions and classes that they use.

    ``helpers`` has the JavaScript of these by their name, ``used`` the Python.
    """

    def __init__(self, model: str):
        self.model = model
        self.helpers: dict[str, str] = {}
        self.used: dict[str, Callable[..., Any]] = {}

    def refuse(self, node: ast.AST) -> NoReturn:
        raise ValueError(f'the model {self.model} may not say {ast.unparse(node)!r}: '
                         'use arithmetic, comparisons, min, max, floor, ceil, sqrt, log2, erlang_c, '
                         'and functions of its module that do the same')

    # Statements.

    def body(self, lines: list[ast.stmt], scope: Scope) -> str:
        """The lines of a function, with a declaration of its variables."""
        names = {}
        for line in lines:
            for node in ast.walk(line):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names[node.id] = None
        for name in [*scope.known, *names]:
            if name in RESERVED:
                raise ValueError(f'the model {self.model} may not call anything {name!r}: '
                                 'JavaScript has that word for itself')
        for argument in scope.known:        # it is declared already
            names.pop(argument, None)
        declared = f'let {", ".join(names)}; ' if names else ''
        return declared + self.lines(lines, scope)

    def lines(self, lines: list[ast.stmt], scope: Scope) -> str:
        return ' '.join(self.line(line, scope) for line in lines)

    def line(self, line: ast.stmt, scope: Scope) -> str:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                translated = self.js(value, scope)
                scope.known.add(name)
                return f'{name} = {translated};'
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) \
                    if len(targets) == len(values) and all(isinstance(t, ast.Name) for t in targets):
                translated = ', '.join(self.js(value, scope) for value in values)
                names = [t.id for t in targets]
                scope.known.update(names)
                return f'[{", ".join(names)}] = [{translated}];'
            case ast.Return(value=value) if value is not None:
                return f'return {self.js(value, scope)};'
            case ast.If(test=test, body=body, orelse=orelse):
                head = f'if ({self.js(test, scope)}) {{ {self.lines(body, scope)} }}'
                return f'{head} else {{ {self.lines(orelse, scope)} }}' if orelse else head
            case ast.Raise(exc=ast.Call(func=ast.Name(id='ValueError'), args=[text], keywords=[])):
                return f'throw new Error({self.js(text, scope)});'
            case ast.Try(body=body, orelse=[], finalbody=[], handlers=[
                    ast.ExceptHandler(type=ast.Name(id='ValueError'), name=str(name), body=handler)]):
                tried = self.lines(body, scope)
                scope.errors.add(name)
                return f'try {{ {tried} }} catch ({name}) {{ {self.lines(handler, scope)} }}'
            case ast.Expr(value=ast.Call() as call):
                return f'{self.js(call, scope)};'
        self.refuse(line)

    # Expressions.

    def js(self, node: ast.AST, scope: Scope) -> str:
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                return json.dumps(node.value, ensure_ascii=False)
            case ast.Name(id=name) if name in scope.known:
                return name
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in scope.known:
                return f'{name}.{attribute}'
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
                return f'{self.js(value, scope)}[{json.dumps(key)}]'
            case ast.BinOp(left=a, op=ast.FloorDiv(), right=b):
                return f'Math.floor({self.js(a, scope)} / {self.js(b, scope)})'
            case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATORS:
                return f'({self.js(a, scope)} {OPERATORS[type(op)]} {self.js(b, scope)})'
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return f'(-{self.js(a, scope)})'
            case ast.Compare(left=ast.Constant(value=str()) as a, ops=[ast.In()], comparators=[b]):
                return f'{self.js(b, scope)}.includes({self.js(a, scope)})'
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in OPERATORS:
                return f'({self.js(a, scope)} {OPERATORS[type(op)]} {self.js(b, scope)})'
            case ast.BoolOp(op=op, values=several):
                return '(' + f' {OPERATORS[type(op)]} '.join(self.js(x, scope) for x in several) + ')'
            case ast.IfExp(test=test, body=a, orelse=b):
                return f'({self.js(test, scope)} ? {self.js(a, scope)} : {self.js(b, scope)})'
            case ast.Dict(keys=keys, values=values):
                return '{' + ', '.join(self.item(k, v, scope)
                                       for k, v in zip(keys, values, strict=True)) + '}'
            case ast.JoinedStr(values=parts):
                return '(' + ' + '.join(self.part(p, scope) for p in parts) + ')'
            case ast.Call():
                return self.call(node, scope)
        self.refuse(node)

    def item(self, key: ast.expr | None, value: ast.expr, scope: Scope) -> str:
        """An entry of a dictionary, or another dictionary that it takes in (``**``)."""
        if key is None:
            return f'...{self.js(value, scope)}'
        return f'{self.js(key, scope)}: {self.js(value, scope)}'

    def part(self, part: ast.expr, scope: Scope) -> str:
        """A part of an f-string: a text, or a number as it is, with commas, or with a count of digits."""
        if isinstance(part, ast.Constant):
            return self.js(part, scope)
        assert isinstance(part, ast.FormattedValue)
        value = self.js(part.value, scope)
        form = ast.literal_eval(ast.unparse(part.format_spec)[1:]) if part.format_spec else ''
        if form == '':
            return f'String({value})'
        if form == ',':
            return f'{value}.toLocaleString("en-US")'
        digits = form.removeprefix(',').removeprefix('.').removesuffix('f')
        if form not in (f',.{digits}f', f'.{digits}f') or not digits.isdigit():
            self.refuse(part.value)
        if form.startswith(','):
            return (f'{value}.toLocaleString("en-US", {{minimumFractionDigits: {digits}, '
                    f'maximumFractionDigits: {digits}}})')
        return f'{value}.toFixed({digits})'

    def call(self, node: ast.Call, scope: Scope) -> str:
        match node:
            case ast.Call(func=ast.Name(id='sum'), keywords=[], args=[
                    ast.Call(func=ast.Attribute(value=value, attr='values'), args=[], keywords=[])]):
                return f'Object.values({self.js(value, scope)}).reduce((a, b) => a + b, 0)'
            case ast.Call(func=ast.Name(id='str'), args=[ast.Name(id=name)], keywords=[]) \
                    if name in scope.errors:
                return f'{name}.message'
            case ast.Call(func=ast.Attribute(value=ast.Name(id='math'), attr=name)) \
                    if name in FUNCTIONS and 'math' not in scope.known:
                function = f'Math.{name}'
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                function = f'Math.{name}'
            case ast.Call(func=ast.Name(id=name)) if name in OURS:
                function = OURS[name]
            case ast.Call(func=ast.Name(id=name)) if name not in scope.known and name in scope.space:
                return self.helper(node, name, scope)
            case _:
                self.refuse(node)
        if node.keywords:
            self.refuse(node)
        return f'{function}({", ".join(self.js(a, scope) for a in node.args)})'

    # Functions and classes that a model uses.

    def helper(self, node: ast.Call, name: str, scope: Scope) -> str:
        """A call of a function or dataclass of the module: arguments by their place, or all by name."""
        definition = scope.space[name]
        if self.used.setdefault(name, definition) is not definition:
            raise ValueError(f'the model {self.model} uses two functions that are called {name}')
        if name not in self.helpers:
            self.helpers[name] = ''         # a function may call itself
            if inspect.isfunction(definition):
                self.helpers[name] = self.function(definition)
            elif dataclasses.is_dataclass(definition):
                self.helpers[name] = self.dataclass(definition)
            else:
                self.refuse(node)
        new = 'new ' if inspect.isclass(definition) else ''
        by_name = inspect.isclass(definition) or bool(tree(definition).args.kwarg)
        if by_name and not node.args:
            pairs = [self.item(ast.Constant(k.arg) if k.arg else None, k.value, scope)
                     for k in node.keywords]
            return f'{new}{name}({{{", ".join(pairs)}}})'
        if by_name or node.keywords:
            self.refuse(node)
        return f'{name}({", ".join(self.js(a, scope) for a in node.args)})'

    def function(self, function: Callable[..., Any]) -> str:
        node = tree(function)
        names = [a.arg for a in node.args.args]
        if node.args.kwarg:
            names.append(node.args.kwarg.arg)       # with it, a call gives all by name
        if node.args.kwarg and len(names) > 1 or node.args.defaults or node.args.vararg \
                or node.args.kwonlyargs or node.args.posonlyargs:
            self.refuse(node.args)
        body = self.body(node.body, Scope(set(names), function.__globals__))
        return f'const {node.name} = ({", ".join(names)}) => {{ {body} }};'

    def dataclass(self, definition: type) -> str:
        defaults, getters = [], []
        for part in tree(definition).body:
            match part:
                case ast.AnnAssign(target=ast.Name(id=name), value=None):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=value):
                    defaults.append(f'{name}: {self.js(value, Scope(set(), {}))}')
                case ast.FunctionDef(name=name, decorator_list=[ast.Name(id='property')], body=lines):
                    space = vars(definition)[name].fget.__globals__
                    body = self.body(lines, Scope({'self'}, space))
                    getters.append(f'get {name}() {{ const self = this; {body} }}')
                case _:
                    self.refuse(part)
        return (f'class {definition.__name__} {{ constructor(v) {{ '
                f'Object.assign(this, {{{", ".join(defaults)}}}, v); }} {" ".join(getters)} }}')
