"""Which libraries `import torch` opens by itself, read from the text of its `__init__.py`: nothing of it is executed.

Read of every minor release from 1.0 to 2.14. Up to 1.4, `torch._C` itself is opened for everybody (RTLD_GLOBAL). Since
1.5, `libtorch_global_deps.so` is, before it. Since 1.13, libraries of the nvidia-* distributions are opened when that
fails; since 2.6, some are also opened when it does not, and since 2.10 all of them.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envdoctor.probes.foreign_files import read_file
from envdoctor.probes.import_path import parse_source

# The whole file takes longer to parse than all of the loading to predict.
_FUNCTIONS = re.compile(
    rb"^def (_get_cuda_dep_paths|_preload_cuda\w*|_load_global_deps)\b.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL
)
_LONGEST = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """One library that torch opens before `torch._C`."""

    folder: str  # of the nvidia-* distributions, e.g. "cublas"
    pattern: str  # "libcublas.so.*[0-9]"
    is_required: bool = True
    least_cuda_major: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchImport:
    """How one version of torch opens its libraries."""

    opens_global_deps: bool
    # What is opened when `libtorch_global_deps.so` cannot be and the loader names one of `about`; then it tries again.
    after_failure: tuple[Preload, ...] = ()
    about: tuple[str, ...] = ()
    after_success: tuple[Preload, ...] = ()
    needs_loaded: str = ""  # part of a path that must be loaded for `after_success`
    looks_beside_nvidia: bool = False  # in FOLDER/lib, and not only in nvidia/FOLDER/lib
    looks_in_cuda_folder: bool = False  # in nvidia/cu13/lib, too


def read_torch_import(torch: Path) -> TorchImport:
    """Read how a torch opens its libraries; its folder is *torch*.

    Raises:
        OSError: its `__init__.py` cannot be read.
        ValueError: a function of it that is needed is not Python.

    """
    source = read_file(torch / "__init__.py", largest=_LONGEST)
    functions = {found[1].decode(): parse_source(found[0]) for found in _FUNCTIONS.finditer(source)}
    loading = functions.get("_load_global_deps")
    if loading is None:
        return TorchImport(opens_global_deps=False)
    attempt = next((node for node in ast.walk(loading) if isinstance(node, ast.Try)), None)
    if attempt is None:
        return TorchImport(opens_global_deps=True)
    others = [function for name, function in functions.items() if function is not loading]
    table = tuple(preload for function in functions.values() for preload in _read_table(function))
    handlers: list[ast.AST] = list(attempt.handlers)
    about = tuple(_read_missing(handlers)) or tuple(preload.pattern.partition(".")[0] for preload in table)
    table += tuple(preload for function in others for preload in _read_calls([function]))
    texts = b"".join(found[0] for found in _FUNCTIONS.finditer(source))
    return TorchImport(
        opens_global_deps=True,
        after_failure=(*table, *_read_calls(handlers)),
        about=about,
        after_success=(*_read_calls(attempt.body), *_read_whole_table(attempt.body, table)),
        needs_loaded=next(_read_missing(attempt.body), ""),
        looks_beside_nvidia=re.search(rb"join\(path, lib_folder,", texts) is not None,
        looks_in_cuda_folder=b'f"cu{' in texts,
    )


def _read_table(function: ast.AST) -> Iterator[Preload]:
    for node in ast.walk(function):
        match node:
            case ast.AnnAssign(target=ast.Name(id="cuda_libs"), value=ast.Dict(keys=keys, values=values)):
                yield from map(_preload, keys, values)
            case ast.AnnAssign(target=ast.Name(id="cuda_libs"), value=ast.List(elts=rows)):
                yield from (_preload(*row.elts) for row in rows if isinstance(row, ast.Tuple))
            # `if t_major >= 12: cuda_libs["cufile"] = ...` of 2.7 and 2.8
            case ast.If(
                test=ast.Compare(comparators=[ast.Constant(value=int(major))]),
                body=[ast.Assign(targets=[ast.Subscript(slice=key)], value=value)],
            ):
                yield _preload(key, value, least_cuda_major=major)
            # `os.path.join(nvidia_path, 'cublas', 'lib', 'libcublas.so.11')` of 1.13
            case ast.Call(args=[ast.Name(id="nvidia_path"), folder, ast.Constant(value="lib"), ast.Constant() as file]):
                yield _preload(folder, file)


def _read_calls(nodes: Sequence[ast.AST]) -> Iterator[Preload]:
    """Read calls that name one library."""
    for call in _calls_of_preload(nodes):
        match call:
            case ast.Call(args=[ast.Constant() as folder, ast.Constant() as pattern]):
                yield _preload(folder, pattern, is_required=_is_required(call))


def _read_whole_table(nodes: Sequence[ast.AST], table: Sequence[Preload]) -> Iterator[Preload]:
    """Read calls that name none: all of them are meant."""
    for call in _calls_of_preload(nodes):
        if not call.args:
            yield from (preload if _is_required(call) else replace(preload, is_required=False) for preload in table)


def _calls_of_preload(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Call(func=ast.Name(id="_preload_cuda_deps" | "_preload_cuda_lib")):
                yield node


def _is_required(call: ast.Call) -> bool:
    values = [keyword.value for keyword in call.keywords if keyword.arg == "required"]
    return not any(isinstance(value, ast.Constant) and value.value is False for value in values)


def _read_missing(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Read conditions of the form `"libcudart.so" not in _maps`."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.NotIn()]):
                yield text


def _preload(
    folder: ast.AST | None, pattern: ast.AST, *, is_required: bool = True, least_cuda_major: int = 0
) -> Preload:
    return Preload(
        folder=_text(folder), pattern=_text(pattern), is_required=is_required, least_cuda_major=least_cuda_major
    )


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
