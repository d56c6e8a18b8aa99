"""JavaScript modules as one script, for a page that may load nothing."""

import re
from importlib.resources import files

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def drawing(name: str) -> str:
    """A file of the folder drawing, which the report holds and the page serves."""
    return (files("headgate.analysis") / "drawing" / name).read_text("utf-8")


def script(entry: str) -> str:
    """The module `entry` and all that it imports, each in a function of its own, so that no names meet."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        text = drawing(f"{name}.js")
        needed = IMPORT.findall(text)
        for _, other in needed:
            if other not in done:
                add(other)
        taken = "".join(f"const {{{names.replace(' as ', ': ')}}} = {other}Module;\n" for names, other in needed)
        given, body = EXPORT.findall(text), EXPORT.sub("", IMPORT.sub("", text))
        done[name] = f"const {name}Module = (() => {{\n{taken}{body}return {{ {', '.join(given)} }};\n}})();\n"

    add(entry)
    return re.sub(r"<(?=/script|!--)", r"\\x3c", '"use strict";\n' + "".join(done.values()), flags=re.IGNORECASE)
