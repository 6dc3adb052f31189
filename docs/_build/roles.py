"""Docstrings are written for every reader of the source; here their few marks of reStructuredText become Markdown.

In signatures the constant ``AUTO`` becomes what it stands for.
"""

import re

from griffe import Extension


def to_markdown(text):
    """Roles and double backquotes become code, math directives become formulas."""
    text = re.sub(r":(?:class|mod|meth|func|attr|data|math):`~?\.?([^`<]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"^( *)\.\. math:: (.*(?:\n\1 +\S.*)*)", _formula, text, flags=re.MULTILINE)


def _formula(match):
    body = " ".join(line.strip() for line in match.group(2).splitlines())
    return f"{match.group(1)}$$\n{match.group(1)}{body}\n{match.group(1)}$$"


class Roles(Extension):
    """Rewrites every docstring as it is read."""

    def on_instance(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
        for parameter in obj.parameters if obj.is_function else ():
            if str(parameter.default) == "AUTO":
                parameter.default = '"auto"'
