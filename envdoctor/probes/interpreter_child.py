"""Print, as one line of JSON, what only the interpreter that runs this file knows about itself.

Started by path as ``python -B -S interpreter_child.py`` under any Python from 2.7 on. Nothing of ours is imported, and
nothing of the environment runs: `-S` keeps the `import` lines of .pth files, sitecustomize and usercustomize asleep.
The line opens with `envdoctor-answer:`, because wrapper scripts around interpreters print lines of their own.
"""

import sys

sys.path.pop(0)  # the folder of this file: its modules must not stand in for those of the standard library

answer = {
    "executable": [sys.executable or ""],
    "version": [".".join(str(number) for number in sys.version_info[:3])],
}

if sys.version_info >= (3,):
    import os
    from importlib.machinery import EXTENSION_SUFFIXES

    answer["implementation"] = [sys.implementation.name]
    answer["extension_suffixes"] = EXTENSION_SUFFIXES
    has_stock_site = not os.path.exists(os.path.join(os.path.dirname(os.__file__), "orig-prefix.txt"))
else:
    # Built-in modules only: a virtualenv of Python 2 has hardly any standard library until its site module ran.
    import imp

    answer["implementation"] = ["pypy" if hasattr(sys, "pypy_version_info") else "cpython"]
    answer["extension_suffixes"] = [suffix for suffix, _, kind in imp.get_suffixes() if kind == imp.C_EXTENSION]
    has_stock_site = False

try:
    import sysconfig

    answer["platform"] = [sysconfig.get_platform()]
except ImportError:  # as above: then the caller knows better
    answer["platform"] = []


def note_folder(sitedir, known_paths=None, *_args, **_options):
    """Stand in for `site.addsitedir`, which would read the .pth files of the folder and run their `import` lines."""
    answer["site_folders"].append(sitedir)
    return known_paths


# The site module of Python 2, and that of virtualenvs made before virtualenv 20 (they have an orig-prefix.txt), does
# its whole work when it is imported, .pth files and all. Their site folders follow from the layout of the prefix.
if has_stock_site:
    import site

    # Distributors patch the site module (Debian, Fedora), so it is asked itself, in the order of its `main`.
    answer["site_folders"] = []
    site.addsitedir = note_folder
    try:
        known = site.removeduppaths()
        site.venv(known)
        if site.ENABLE_USER_SITE is None:
            site.ENABLE_USER_SITE = site.check_enableusersite()
        site.addusersitepackages(known)
        site.addsitepackages(known)
    except (AttributeError, TypeError):  # these functions have been there since 3.3, but are no promise
        del answer["site_folders"]
    answer["user_site"] = [site.getusersitepackages()]
    answer["user_site_enabled"] = ["yes"] if site.ENABLE_USER_SITE else []

answer["prefix"] = [sys.prefix]
answer["base_prefix"] = [getattr(sys, "base_prefix", sys.prefix)]
answer["standard_library"] = sys.path

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+ "


def quoted(text):
    """Write every special byte as an escape: paths need not be UTF-8, and `json` may be missing (see above)."""
    octets = bytearray(text if isinstance(text, bytes) else os.fsencode(text))
    return '"' + "".join(chr(octet) if chr(octet) in PLAIN else "\\u%04x" % octet for octet in octets) + '"'


sys.stdout.write(
    "\nenvdoctor-answer: {"
    + ", ".join(quoted(name) + ": [" + ", ".join(map(quoted, values)) + "]" for name, values in answer.items())
    + "}\n"
)
