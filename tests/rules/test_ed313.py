from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Undecided
from envdoctor.model.loading import LoadFailure, LoadFault, LoadWay
from envdoctor.rules.ed313_unloadable_extension import unloadable_extension
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_distribution,
    a_failed_load,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
)

MISSING = a_missing_symbol("_Z16rotate_nms_cudav")


def test_quotes_the_loader(kb: KnowledgeBase) -> None:
    [finding] = unloadable_extension(
        loader=a_loader(a_failed_load(MISSING)), distributions=(a_distribution("mmcv", "1.7.2"),), kb=kb
    )

    assert finding.message == "mmcv 1.7.2 cannot be loaded: no library defines `_Z16rotate_nms_cudav`"
    assert finding.evidence[0].value == MISSING.words
    assert ("imported by", "mmcv/__init__.py:7, mmcv/ops/__init__.py:3") in [
        (one.source, one.value) for one in finding.evidence
    ]


def test_versions_of_other_libraries_are_told_likewise(kb: KnowledgeBase) -> None:
    failure = a_missing_version("OPENSSL_3.0.0", a_loaded_library("/usr/lib/libcrypto.so.3"))
    [finding] = unloadable_extension(loader=a_loader(a_failed_load(failure)), kb=kb)

    assert ("libcrypto.so.3", "is /usr/lib/libcrypto.so.3 (RUNPATH /usr/lib)") in [
        (one.source, one.value) for one in finding.evidence
    ]


def test_what_could_not_be_read_stays_open(kb: KnowledgeBase) -> None:
    loader = a_loader(unreadable=(f"{SITE_PACKAGES}/a/b.so: Permission denied",))
    [conclusion] = unloadable_extension.check(loader=loader, kb=kb)

    assert conclusion == Undecided("whether a/b.so loads: Permission denied")


def test_is_silent_about_causes_with_rules_of_their_own(kb: KnowledgeBase) -> None:
    assert not unloadable_extension(loader=a_loader(a_failed_load(a_missing_library())), kb=kb)


def test_is_silent_where_nothing_imports_it(kb: KnowledgeBase) -> None:
    failed = a_failed_load(MISSING, way=LoadWay.PERHAPS, import_chain=())

    assert not unloadable_extension(loader=a_loader(failed), kb=kb)


def test_what_needs_no_torch_is_not_built_beside_torch(kb: KnowledgeBase) -> None:
    [finding] = unloadable_extension(loader=a_loader(a_failed_load(MISSING, needs_torch=False)), kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.summary == "install mmcv anew, or build it anew"


def test_words_that_fit_nothing_are_quoted(kb: KnowledgeBase) -> None:
    words = "Inconsistency detected by ld.so: dl-version.c: Assertion `needed != NULL' failed!"
    failure = LoadFailure(words=words, fault=LoadFault.VERSION, file="", name="odd")
    [finding] = unloadable_extension(loader=a_loader(a_failed_load(failure)), kb=kb)

    assert finding.message == f"mmcv cannot be loaded: {words}"


def test_an_executable_stack_is_no_damage(kb: KnowledgeBase) -> None:
    # https://github.com/OpenNMT/CTranslate2/issues/1849
    file = f"{SITE_PACKAGES}/ctranslate2.libs/libctranslate2-bc15bf3f.so.4.5.0"
    failure = a_damaged_file("cannot enable executable stack as shared object requires: Invalid argument", file=file)
    failed = a_failed_load(failure, distribution="ctranslate2")
    [finding] = unloadable_extension(loader=a_loader(failed, glibc="2.41"), kb=kb)

    assert "asks for an executable stack, which glibc 2.41 does not give" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands[1] == f"patchelf --clear-execstack {file}"
