"""Whether importing a package imports one of its extension modules for certain: from its sources, nothing is executed.

What counts are the statements that every import of a module reaches: none in a function, class, loop or condition, and
none in a `try` that would swallow the failure.
"""

import ast
import builtins
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from envdoctor.model.facts import Environment
from envdoctor.probes.foreign_files import read_head
from envdoctor.probes.import_path import LONGEST_SOURCE, find_entries, parse_source
from envdoctor.probes.library_files import STANDARD_LIBRARY

# The import of a large package reaches some hundred modules.
_MOST_REACHED = 400
_MOST_SOURCES = 4000  # of all packages that are asked about
_DEEPEST_CALL = 3

# Calls that open libraries, or change how later ones are opened (`sys.setdlopenflags`).
_OPENING = frozenset({"CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen", "setdlopenflags"})
_PRELOADING = "preload"

# What distributions install beside their packages by mistake.
_NEVER_IMPORTED = frozenset({"benchmark", "benchmarks", "docs", "examples", "test", "tests"})

# Of type checkers, and of the time when NumPy and SciPy are built.
_KNOWN_CONDITIONS = {"TYPE_CHECKING": False, "__NUMPY_SETUP__": False, "__SCIPY_SETUP__": False}


Reached = dict[str, tuple[str, int]]  # by module: which one imports it first, and in which line


class Chain(NamedTuple):
    """How importing a package leads to one of its modules."""

    statements: tuple[str, ...]  # "mmcv/__init__.py:7", ...; () when none is certain
    preloads: tuple[str, ...]  # statements on the way that open libraries


class Located(NamedTuple):
    """What the import system finds for a module: a source, an extension module, or a package."""

    path: str  # of a package its `__init__.py`, "" for one that has none
    folder: str  # of a package, "" for a module
    entry: str  # the folder of the search path that it was found in

    @property
    def place(self) -> str:
        """The path below the search path."""
        return os.path.relpath(self.path, self.entry)


class _Import(NamedTuple):
    """One statement that imports, with names as it writes them."""

    line: int
    level: int  # of `from ..a import b`: 2
    module: str
    names: tuple[str, ...]  # of `from a import b, c`
    is_own_name: bool = False  # of OpenCV's loader: see `_imports_of_function`


@dataclass(frozen=True)
class _Source:
    """What one module does when it is imported."""

    imports: tuple[_Import, ...] = ()  # those that every import of it reaches
    mentioned: tuple[_Import, ...] = ()  # all
    # Names that are no submodules whatever files there are, and the lines where they are first bound.
    bound: Mapping[str, int] = field(default_factory=dict)
    opening: tuple[int, ...] = ()  # lines that open libraries


@dataclass(frozen=True)
class ImportChains:
    """The sources of one environment, each read at most once."""

    environment: Environment
    _located: dict[str, Located | None] = field(default_factory=dict)
    _sources: dict[str, _Source] = field(default_factory=dict)
    _reached: dict[tuple[tuple[str, ...], tuple[str, ...]], Reached] = field(default_factory=dict)

    def find(self, module: str, library: str, siblings: Iterable[str]) -> Chain:
        """Find the way from `import PACKAGE` to *module*, which is the file *library*.

        PACKAGE is its own one, or else one of *siblings*, the other import names of its distribution.
        """
        located = self.locate(module)
        if located and not _is_same(located.path, library):
            return Chain((), ())  # another file goes by this name
        top = module.partition(".")[0]
        others = tuple(sorted({*siblings} - {top} - _NEVER_IMPORTED))
        starts = [others] if module == top else [(top,), others]
        ways = (tuple(self._steps(module, self._reach(names, (top, *others)))) for names in starts)
        steps = next(filter(None, ways), ())
        parents = [module.rsplit(".", count)[0] for count in range(module.count("."), 0, -1)]
        on_the_way = dict.fromkeys((*parents, *(name for name, _ in steps)))
        return Chain(
            tuple(f"{at.place}:{line}" for name, line in steps if (at := self.locate(name))),
            tuple(dict.fromkeys(opening for name in on_the_way for opening in self._find_preloads(name))),
        )

    def is_extension_module(self, module: str) -> bool:
        """Tell whether a name stands for a compiled module, and not for a source or a package."""
        located = self.locate(module)
        return bool(located and located.path and not located.path.endswith(".py"))

    def locate(self, module: str) -> Located | None:
        """Find what a name stands for outside of the standard library; None when there is nothing."""
        if module not in self._located:
            self._located[module] = self._locate(module)
        return self._located[module]

    def _locate(self, module: str) -> Located | None:
        package, _, name = module.rpartition(".")
        if package:
            found = self.locate(package)
            return self._look(found.folder, name, found.entry) if found and found.folder else None
        entries = find_entries(self.environment, name)
        looks = (self._look(each.path, name, each.path) for each in entries if each.origin != STANDARD_LIBRARY)
        candidates = [each for each in looks if each]
        # A folder without `__init__.py` is taken where there is nothing else.
        return next((each for each in candidates if each.path), next(iter(candidates), None))

    def _look(self, folder: str, name: str, entry: str) -> Located | None:
        """Look into one folder as importlib's FileFinder does: packages, extension modules, sources."""
        inner = os.path.join(folder, name)
        if os.path.isfile(source := os.path.join(inner, "__init__.py")):
            return Located(source, inner, entry)
        for suffix in (*self.environment.extension_suffixes, ".py"):
            if os.path.isfile(inner + suffix):
                return Located(inner + suffix, "", entry)
        return Located("", inner, entry) if os.path.isdir(inner) else None

    def _steps(self, module: str, reached: Reached) -> Iterator[tuple[str, int]]:
        if module in reached:
            importer, line = reached[module]
            yield from self._steps(importer, reached)
            yield importer, line

    def _reach(self, starts: tuple[str, ...], names: tuple[str, ...]) -> Reached:
        """Tell of every module that importing *starts* imports which module imports it, and where."""
        if (starts, names) in self._reached:
            return self._reached[starts, names]
        reached: Reached = {}
        waiting = deque(starts)
        while waiting and len(reached) < _MOST_REACHED:
            importer = waiting.popleft()
            for statement in self._source_of(importer).imports:
                for target in self._targets(statement, importer, reached):
                    is_new = target not in reached and target not in starts
                    if is_new and target.partition(".")[0] in names:
                        reached[target] = importer, statement.line
                        waiting.append(target)
        self._reached[starts, names] = reached
        return reached

    def _targets(self, statement: _Import, importer: str, reached: Reached) -> Iterator[str]:
        """Yield the modules that a statement imports, packages before what is in them."""
        base = self._absolute(statement, importer)
        if statement.is_own_name:
            yield f"{base}.{base}"
            return
        parts = base.split(".") if base else []
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        if not base:
            return
        bound = self._source_of(base).bound
        known = _line_in(base, importer, statement.line, reached)
        if bound.get("__getattr__", known) >= known:
            # Python looks for a submodule where the package has no such name (importlib._bootstrap._handle_fromlist).
            yield from (f"{base}.{name}" for name in statement.names if bound.get(name, known) >= known)

    def _absolute(self, statement: _Import, importer: str) -> str:
        if not statement.level:
            return statement.module
        located = self.locate(importer)
        up = statement.level - bool(located and located.folder)
        parts = importer.split(".")
        if up >= len(parts):
            return ""
        return ".".join(filter(None, (*parts[: len(parts) - up], statement.module)))

    def _source_of(self, module: str) -> _Source:
        located = self.locate(module)
        if located is None or not located.path.endswith(".py"):
            return _Source()
        path = located.path
        if path not in self._sources and len(self._sources) < _MOST_SOURCES:
            self._sources[path] = _read_source(path, module)
        return self._sources.get(path, _Source())

    def _find_preloads(self, module: str) -> Iterator[str]:
        """Yield where a module opens libraries, itself or in a module that it imports, under whatever condition."""
        mentioned = (self._targets(each, module, {}) for each in self._source_of(module).mentioned)
        names = dict.fromkeys((module, *(name for targets in mentioned for name in targets)))
        for name in names:
            # torch opens libraries of its own; they are in the process that is predicted.
            opening = () if name.partition(".")[0] == "torch" else self._source_of(name).opening
            if opening and (located := self.locate(name)):
                yield from (f"{located.place}:{line}" for line in opening)


def _line_in(package: str, importer: str, line: int, reached: Reached) -> int:
    """Return how far *package* is executed when *importer* is: what it binds later it does not know yet."""
    while importer != package:
        if importer not in reached:
            return sys.maxsize
        importer, line = reached[importer]
    return line


def _is_same(path: str, library: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(library)


# --- one source --------------------------------------------------------------------------------------------------


def _read_source(path: str, module: str) -> _Source:
    try:
        tree = parse_source(read_head(path, LONGEST_SOURCE))
    except (OSError, ValueError):  # gone, locked, for Python 2, or longer than what is read
        return _Source()
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Import | ast.ImportFrom)]
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return _Source(
        imports=tuple(_Reading(tree).find_certain_imports()),
        mentioned=tuple(each for node in nodes for each in _imports_of(node)),
        bound={name: line for line, name in sorted(_find_bound_names(tree.body, module), reverse=True)},
        opening=tuple(sorted({call.lineno for call in calls if _opens_libraries(call)})),
    )


def _imports_of(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from (_Import(node.lineno, 0, alias.name, ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        names = tuple(alias.name for alias in node.names if alias.name != "*")
        yield _Import(node.lineno, node.level, node.module or "", names)
    elif isinstance(node, ast.Call) and _name_of(node.func) in {"import_module", "__import__"}:
        match node.args:
            case [ast.Constant(value=str(name))] if not name.startswith("."):
                yield _Import(node.lineno, 0, name, ())


def _opens_libraries(call: ast.Call) -> bool:
    name = _name_of(call.func)
    return name in _OPENING or _PRELOADING in name.lower()


def _name_of(node: ast.AST) -> str:
    """Return the last part of a dotted name, "" for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return str(name)
    return ""


def _find_bound_names(body: Iterable[ast.stmt], module: str) -> Iterator[tuple[int, str]]:
    """Yield names with the lines where they are bound."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield statement.lineno, name
            case ast.Assign() | ast.AnnAssign():
                names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
                yield from ((node.lineno, node.id) for node in names if isinstance(node.ctx, ast.Store))
            case ast.ImportFrom(module=str(source), level=level, names=aliases) if level or source != module:
                yield from ((statement.lineno, alias.asname or alias.name) for alias in aliases)
            case ast.If() | ast.Try() | ast.With():
                inner = ast.iter_child_nodes(statement)
                yield from _find_bound_names((node for node in inner if isinstance(node, ast.stmt)), module)


@dataclass(frozen=True)
class _Reading:
    """The statements of one module that every import of it reaches."""

    tree: ast.Module

    def find_certain_imports(self) -> Iterator[_Import]:
        """Yield them in order."""
        for statement in _certain(self.tree.body, self._conditions):
            yield from self._imports_of(statement, _DEEPEST_CALL)

    def _imports_of(self, statement: ast.stmt, depth: int) -> Iterator[_Import]:
        """Yield what one statement imports, also through the functions of this module that it calls."""
        yield from _imports_of(statement)
        match statement:
            case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
                yield from _imports_of(call)
                called = self._functions.get(_name_of(call.func)) if isinstance(call.func, ast.Name) else None
                if called and depth:
                    yield from self._imports_of_function(called, depth - 1)

    def _imports_of_function(self, function: ast.FunctionDef, depth: int) -> Iterator[_Import]:
        popped: set[str] = set()
        for statement in _certain(function.body, _KNOWN_CONDITIONS):
            popped |= _names_taken_out(statement)
            for each in self._imports_of(statement, depth):
                # cv2/__init__.py takes itself out of `sys.modules`, puts its folder first, and imports its own name:
                # that is the extension module in the folder.
                yield each._replace(is_own_name=each.module in popped)

    @cached_property
    def _conditions(self) -> Mapping[str, bool]:
        """The names whose truth is known: some are constants of the module."""
        simple = (each for each in self.tree.body if isinstance(each, ast.Assign))
        values = {_name_of(each.targets[0]): truth for each in simple if (truth := _truth_of(each.value)) is not None}
        if not values:
            return _KNOWN_CONDITIONS
        names = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        assigned = Counter(node.id for node in names)
        return _KNOWN_CONDITIONS | {name: truth for name, truth in values.items() if assigned[name] == 1}

    @cached_property
    def _functions(self) -> dict[str, ast.FunctionDef]:
        defined = (each for each in self.tree.body if isinstance(each, ast.FunctionDef))
        return {each.name: each for each in defined if not each.decorator_list}


def _names_taken_out(statement: ast.stmt) -> set[str]:
    """Return the constant of `sys.modules.pop("cv2")`."""
    match statement:
        case ast.Expr(value=call) | ast.Assign(value=call):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr="modules"), attr="pop"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    return {name}
    return set()


def _certain(body: Iterable[ast.stmt], conditions: Mapping[str, bool]) -> Iterator[ast.stmt]:
    """Yield the simple statements that are reached whenever *body* is, up to the first that may end it."""
    statements = tuple(body)
    for number, statement in enumerate(statements, start=1):
        match statement:
            case ast.Raise() | ast.Return():
                return
            case ast.If():
                yield from _certain(_taken_branch(statement, conditions), conditions)
            case ast.Try():
                swallows = any(_swallows(handler, statements[number:]) for handler in statement.handlers)
                yield from _certain(() if swallows else (*statement.body, *statement.orelse), conditions)
                yield from _certain(statement.finalbody, conditions)
            case ast.With() if all(_name_of(_called(item)) == "catch_warnings" for item in statement.items):
                yield from _certain(statement.body, conditions)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case _:
                yield statement
        if _may_return(statement):
            return


def _may_return(node: ast.AST) -> bool:
    """Tell whether a function may end within a statement of it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
        return False
    return isinstance(node, ast.Return) or any(map(_may_return, ast.iter_child_nodes(node)))


def _called(item: ast.withitem) -> ast.AST:
    return item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr


def _taken_branch(statement: ast.If, conditions: Mapping[str, bool]) -> list[ast.stmt]:
    """Return the branch that is taken at run time, [] when it depends."""
    match statement.test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            truth = _truth_of(operand, conditions)
            is_true = None if truth is None else not truth
        case test:
            is_true = _truth_of(test, conditions)
    if is_true is None:
        return []
    return statement.body if is_true else statement.orelse


def _truth_of(expression: ast.expr, conditions: Mapping[str, bool] = _KNOWN_CONDITIONS) -> bool | None:
    """Tell what an expression comes to: a constant, or a switch in the environment as flash_attn has one."""
    match expression:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name):
            return conditions.get(name)
        case ast.Attribute(attr=name):
            return _KNOWN_CONDITIONS.get(name)  # `typing.TYPE_CHECKING`
        case ast.Compare(
            left=ast.Call(
                func=ast.Attribute(attr="getenv" | "get") as function,
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(default))],
            ),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=value)],
        ) if function.attr == "getenv" or _name_of(function.value) == "environ":
            return os.environ.get(name, default) == value
    return None


def _swallows(handler: ast.ExceptHandler, later: tuple[ast.stmt, ...]) -> bool:
    """Tell whether a handler ends the failure of an import: an ImportError, which nothing raises again."""
    if _raises(handler.body) or _is_raised_later(handler, later):
        return False
    match handler.type:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(_catches_import_error(kind) for kind in kinds)
        case kind:
            return _catches_import_error(kind)


def _is_raised_later(handler: ast.ExceptHandler, later: tuple[ast.stmt, ...]) -> bool:
    """Tell whether the error is kept and raised when all else is imported, as onnxruntime does."""
    assigned = (each for each in handler.body if isinstance(each, ast.Assign) and _name_of(each.value) == handler.name)
    kept = {_name_of(target) for each in assigned for target in each.targets}
    return any(isinstance(each, ast.If) and _name_of(each.test) in kept and _raises(each.body) for each in later)


def _raises(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in body)


def _catches_import_error(kind: ast.expr) -> bool:
    known = getattr(builtins, _name_of(kind), None)
    return not isinstance(known, type) or issubclass(ImportError, known)
