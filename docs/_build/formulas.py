"""Formulas become MathML when the site is built, so that pages need no script to show them."""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content, **kwargs):
    """Replace what the arithmatex extension marked."""
    return FORMULA.sub(_mathml, content)


def _mathml(match):
    display = "inline" if match.group(2) == "(" else "block"
    formula = convert(html.unescape(match.group(3)), display=display)
    return formula if display == "inline" else f'<div class="formula">{formula}</div>'
