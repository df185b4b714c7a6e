"""Print, as one line of JSON, what only the interpreter that runs this file knows about itself.

Started by path as ``python -B -S interpreter_child.py`` under any Python from 2.7 on. Nothing of ours is imported, and
nothing of the environment runs: `-S` keeps the `import` lines of .pth files, sitecustomize and usercustomize asleep.
The line opens with `envdoctor-answer:`, because wrapper scripts around interpreters print lines of their own.
"""

import sys

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+ "


def main():
    """Answer on standard output."""
    sys.path.pop(0)  # the folder of this file: its modules must not stand in for those of the standard library
    answer = {
        "executable": [sys.executable or ""],
        "version": [".".join(str(number) for number in sys.version_info[:3])],
        "platform": find_platform(),
    }
    answer.update(ask_python3() if sys.version_info >= (3,) else ask_python2())
    answer["prefix"] = [sys.prefix]
    answer["base_prefix"] = [getattr(sys, "base_prefix", sys.prefix)]
    answer["standard_library"] = sys.path
    items = [quote(name) + ": [" + ", ".join(map(quote, values)) + "]" for name, values in answer.items()]
    sys.stdout.write("\nenvdoctor-answer: {" + ", ".join(items) + "}\n")


def find_platform():
    """Name the platform as wheels do; nothing where sysconfig is missing (see `ask_python2`)."""
    try:
        import sysconfig
    except ImportError:
        return []
    return [sysconfig.get_platform()]


def ask_python2():
    """Ask built-in modules only: a virtualenv of Python 2 has hardly any library until its site module ran."""
    import imp

    return {
        "implementation": ["pypy" if hasattr(sys, "pypy_version_info") else "cpython"],
        "extension_suffixes": [suffix for suffix, _, kind in imp.get_suffixes() if kind == imp.C_EXTENSION],
    }


def ask_python3():
    """Ask the import system, and the site module where that does nothing by being imported."""
    import os
    from importlib.machinery import EXTENSION_SUFFIXES

    answer = {"implementation": [sys.implementation.name], "extension_suffixes": EXTENSION_SUFFIXES}
    # Virtualenvs made before virtualenv 20 have a site module that does its whole work when it is imported, as that of
    # Python 2 does. Their site folders follow from the layout of the prefix, as there.
    if not os.path.exists(os.path.join(os.path.dirname(os.__file__), "orig-prefix.txt")):
        answer.update(ask_site())
    return answer


def ask_site():
    """Let the site module, which distributors patch, find its folders, and take down what it finds."""
    import site

    folders = []

    def note_folder(sitedir, known_paths=None, *_args, **_options):
        folders.append(sitedir)
        return known_paths

    site.addsitedir = note_folder  # it would read the .pth files of the folder and run their `import` lines
    try:
        known = site.removeduppaths()
        site.venv(known)
        if site.ENABLE_USER_SITE is None:
            site.ENABLE_USER_SITE = site.check_enableusersite()
        site.addusersitepackages(known)
        site.addsitepackages(known)
    except (AttributeError, TypeError):  # these functions have been there since Python 3.3, but are no promise
        return {}
    return {
        "site_folders": folders,
        "user_site": [site.getusersitepackages()],
        "user_site_enabled": ["yes"] if site.ENABLE_USER_SITE else [],
    }


def quote(text):
    """Write every special byte as an escape: paths need not be UTF-8, and `json` may be missing (see `ask_python2`)."""
    if not isinstance(text, bytes):
        import os

        text = os.fsencode(text)
    return '"' + "".join(chr(octet) if chr(octet) in PLAIN else "\\u%04x" % octet for octet in bytearray(text)) + '"'


if __name__ == "__main__":
    main()
