"""Reads a page as strictly as no browser does: every element closed, nothing from elsewhere."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "input", "img", "link"}
_OUTSIDE = {"src", "srcset", "action", "formaction", "poster", "data", "xlink:href"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """Raises AssertionError where the page is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open[-1].name}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        last = self._open.pop()
        assert last.name == tag, f"</{tag}> closes <{last.name}>"

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text.append(data)

    def of_class(self, name: str) -> list[Element]:
        return [element for element in self.elements if name in element.attributes.get("class", "").split()]

    def cells(self) -> list[str]:
        return ["".join(element.text) for element in self.elements if element.name == "td"]

    def outside(self) -> list[str]:
        """Whatever would be fetched from somewhere."""
        found = []
        for element in self.elements:
            for name, value in element.attributes.items():
                if name in _OUTSIDE or (name == "href" and not value.startswith("#")):
                    found.append(f"{element.name} {name}={value}")
                if "url(" in value and "url(#" not in value:
                    found.append(f"{element.name} {name}={value}")
            if element.name in ("style", "script"):
                text = "".join(element.text)
                found += [word for word in ("@import", "http:", "https:", "//cdn", "fetch(", "url(") if word in text]
        return found
