"""What the dynamic loader says, for the tests of rules that leave the word to it."""

from dataclasses import replace
from typing import Any

from envdoctor.model.loading import FailedLoad, Loader, LoadFailure, LoadFault, LoadWay
from tests.builders import SITE_PACKAGES


def a_loader(**changes: Any) -> Loader:
    """A process in which torch and every extension can be loaded."""
    loader = Loader(
        library_path=(), preload=(), glibc="2.35", torch=None, torch_process=(), overridden=(), asked=10, failed=()
    )
    return replace(loader, **changes)


def a_failed_load(distribution: str, **changes: Any) -> FailedLoad:
    """A library that was built for another torch."""
    library = f"{SITE_PACKAGES}/{distribution}/_C.so"
    symbol = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    failure = LoadFailure(
        words=f"{library}: undefined symbol: {symbol}", fault=LoadFault.SYMBOL, file=library, name=symbol
    )
    failed = FailedLoad(
        library=library,
        module=f"{distribution}._C",
        distribution=distribution,
        needs_torch=True,
        after_torch=True,
        way=LoadWay.WITH_PACKAGE,
        import_chain=(),
        preloads=(),
        failure=failure,
    )
    return replace(failed, **changes)
