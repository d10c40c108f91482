"""A page taken apart by the standard library's parser, and what must hold of every page."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Every element with its attributes, the text of each script and style, and all other text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.inside, self.text, self._open = [], [], "", []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
        if tag in ("script", "style"):
            self.inside.append((tag, dict(attributes), ""))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] in (["script"], ["style"]):
            tag, attributes, text = self.inside[-1]
            self.inside[-1] = tag, attributes, text + data
        else:
            self.text += data

    def policy(self):
        return next(
            a["content"]
            for t, a in self.elements
            if a.get("http-equiv") == "Content-Security-Policy"
        )


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def check(text):
    """What must hold of every page, whatever it shows."""
    page = Page(text)
    policy = dict(part.strip().split(" ", 1) for part in page.policy().split(";"))
    codes = {tag: body for tag, attributes, body in page.inside if "type" not in attributes}
    assert sorted(codes) == ["script", "style"]
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == digest(codes["style"])
    assert policy["script-src"] == digest(codes["script"])
    assert set(policy) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    for tag, attributes in page.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"src", "srcset", "action", "data"} & set(attributes), tag
        assert attributes.get("href", "#").startswith("#"), tag
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    charts = [a for tag, a in page.elements if tag == "svg" and a.get("role") == "img"]
    for chart in charts:
        assert set(chart["aria-labelledby"].split()) <= set(identifiers)
    assert "url(" not in codes["style"]
    assert "@import" not in codes["style"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    return page
