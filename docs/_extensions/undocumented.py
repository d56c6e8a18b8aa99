"""A public name without a docstring is a warning, and so an error; so is a main
function that no page documents.
"""

from sphinx.util import logging

log = logging.getLogger(__name__)
PLAIN = {"attribute", "data", "property", "module"}
"""what says enough by its name and type"""


def look(app, what, name, obj, options, lines):
    if what not in PLAIN and not any(line.strip() for line in lines):
        log.warning(
            "%s: a public %s without a docstring",
            name,
            what,
            type="headgate",
            subtype="undocumented",
        )


def front_door(app, env):
    import headgate

    homes = {name: f"{home}.{name}" for name, home in headgate._NAMES.items()}
    shown = {each.rsplit(".", 1)[-1] for each in env.get_domain("py").objects}
    for name, home in homes.items():
        if name not in shown | {"__version__"}:
            log.warning(
                "%s: is offered by the package and on no page",
                home,
                type="headgate",
                subtype="undocumented",
            )


def setup(app):
    app.connect("autodoc-process-docstring", look)
    app.connect("env-check-consistency", front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
