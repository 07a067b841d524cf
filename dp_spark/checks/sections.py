"""The sections of a Data Docs page without anything that would be loaded, run or followed."""

from html import escape
from html.parser import HTMLParser

_KEPT_TAGS = frozenset({"div", "h5", "i", "p", "span", "strong", "table", "tbody", "td", "th", "thead", "tr"})
_SILENT_TAGS = frozenset({"script", "style"})
_MARKS = dict(zip("<>&\"'$", map(chr, range(0xFDD0, 0xFDD6)), strict=True))  # Unicode has no such characters
_VEILED = str.maketrans({**_MARKS, **dict.fromkeys(_MARKS.values(), "\ufffd")})
_UNVEILED = str.maketrans({veil: mark for mark, veil in _MARKS.items()})


def veiled(text: str) -> str:
    """`text` for Great Expectations, without what marks markup or a template; `sections_of` brings it back.

    Great Expectations escapes some of what it is given and not the rest, so that escapes would show twice.
    """
    return text.translate(_VEILED)


def sections_of(page: str) -> str:
    """The sections of a page that Great Expectations has rendered of veiled names: text, tables, classes."""
    parser = _Kept()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts)


class _Kept(HTMLParser):
    """Copies the sections of a page: tags of a list, of their attributes the class, and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._divisions: list[bool] = []  # of each open <div>, whether it is a section or lies in one
        self._silent = 0

    @property
    def _is_kept(self) -> bool:
        return bool(self._divisions and self._divisions[-1] and not self._silent)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        classes = dict(attrs).get("class") or ""
        if tag == "div":
            self._divisions.append(self._is_kept or "ge-section" in classes.split())
        if tag in _SILENT_TAGS:
            self._silent += 1
        elif tag in _KEPT_TAGS and self._is_kept:
            self.parts.append(f'<{tag} class="{escape(classes)}">' if classes else f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        if tag in _SILENT_TAGS:
            self._silent -= 1
        elif tag in _KEPT_TAGS and self._is_kept:
            self.parts.append(f"</{tag}>")
        if tag == "div" and self._divisions:
            self._divisions.pop()

    def handle_data(self, data: str) -> None:
        """Copy text."""
        if self._is_kept and data.strip():
            self.parts.append(escape(data.translate(_UNVEILED)))
